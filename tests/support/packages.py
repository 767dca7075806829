"""Packages of third parties as they are when installed: a module, and its entry points."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["CONCEAL", "PLUGINS_PAGE", "TRANSFORMS_PAGE", "example", "install", "install_plain"]

_DOCS = Path(__file__).parent.parent.parent / "docs"
PLUGINS_PAGE = _DOCS / "PLUGINS.md"
TRANSFORMS_PAGE = _DOCS / "TRANSFORMS.md"

#: A module with a transform that takes what waits, leaves out tests, has no secrets left, and notes what it saw.
CONCEAL = """
from dataclasses import replace

from replicator.plugins import Transform

class Conceal(Transform):
    takes_waiting = True

    def apply(self, message):
        if b"test" in message.body:
            return None
        told = {name: value for name, value in message.properties.items() if name != "card"}
        saw = f"{message.topic} {sorted(message.properties)}"
        body = message.body.replace(b"secret", b"masked")
        return replace(message, body=body, flag=5, properties=told | {"TAGS": "masked", "saw": saw})
"""


def install(directory: Path, module: str, text: str, group: str, entries: Mapping[str, str]) -> None:
    """Writes package `module` into a directory, which is then to be on the path; `entries` by name."""
    info = directory / f"{module}-1.2.dist-info"
    info.mkdir(parents=True)
    (directory / f"{module}.py").write_text(text)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
    lines = "".join(f"{name} = {module}:{entry}\n" for name, entry in entries.items())
    (info / "entry_points.txt").write_text(f"[rocketmq_replicator.{group}]\n{lines}")


def install_plain(directory: Path, module: str) -> None:
    """Installs a transform, `plain`, that changes nothing, and takes no messages that wait at their broker."""
    text = """from replicator.plugins import Transform

class Plain(Transform):
    def apply(self, message):
        return message
"""
    install(directory, module, text, "transforms", {"plain": "Plain"})


def example(page: Path) -> str:
    """The Python that stands on a page of the documentation."""
    (text,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return str(text)
