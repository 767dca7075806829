"""The code keeps to its layers."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_module_is_in_a_layer_or_a_leaf() -> None:
    """What is in neither may import whatever it likes."""
    layers, protocol, leaves = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    paths = [path for path in (ROOT / "replicator").iterdir() if path.is_dir() or path.suffix == ".py"]
    there = {f"replicator.{path.stem}" for path in paths if not path.name.startswith("_")}
    there |= {"acl_sync", "pyspark_rocketmq"}
    layered = {name for layer in layers["layers"] for name in re.findall(r"[\w.]+", layer)}
    assert layered | {*leaves["source_modules"]} == there
    assert {*leaves["forbidden_modules"]} == layered
    assert protocol["source_modules"] == ["replicator.protocol"]


def test_imports_point_down_only() -> None:
    """All contracts of import-linter are kept."""
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as run; run()",
        "--no-cache",
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 broken" in ended.stdout
