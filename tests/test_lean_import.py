"""Modules are imported while no garbage is looked for, and it is looked for afterwards as before."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from replicator.lean_import import lean_import, not_installed


@pytest.fixture
def collecting() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("collecting")
@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_looked_for_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, enabled: bool) -> None:
    (tmp_path / "imported_leanly.py").write_text("import gc\nENABLED = gc.isenabled()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "imported_leanly", raising=False)
    (gc.enable if enabled else gc.disable)()
    assert lean_import("imported_leanly").ENABLED is False
    assert gc.isenabled() is enabled


@pytest.mark.usefixtures("collecting")
def test_a_module_that_is_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match="not_installed"):
        lean_import("not_installed")
    assert gc.isenabled()


@pytest.mark.usefixtures("collecting")
def test_a_package_that_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "optional_package.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with not_installed("optional_package"), pytest.raises(ModuleNotFoundError):
        import_module("optional_package")
    there = import_module("optional_package")
    with not_installed("optional_package"):
        assert import_module("optional_package") is there
    monkeypatch.delitem(sys.modules, "optional_package")
