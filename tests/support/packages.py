"""Packages of third parties as they are when installed: a module, and its entry points."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["PLUGINS_PAGE", "TRANSFORMS_PAGE", "example", "install"]

_DOCS = Path(__file__).parent.parent.parent / "docs"
PLUGINS_PAGE = _DOCS / "PLUGINS.md"
TRANSFORMS_PAGE = _DOCS / "TRANSFORMS.md"


def install(directory: Path, module: str, text: str, group: str, entries: Mapping[str, str]) -> None:
    """Writes package `module` into a directory, which is then to be on the path; `entries` by name."""
    info = directory / f"{module}-1.2.dist-info"
    info.mkdir(parents=True)
    (directory / f"{module}.py").write_text(text)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
    lines = "".join(f"{name} = {module}:{entry}\n" for name, entry in entries.items())
    (info / "entry_points.txt").write_text(f"[rocketmq_replicator.{group}]\n{lines}")


def example(page: Path) -> str:
    """The Python that stands on a page of the documentation."""
    (text,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return str(text)
