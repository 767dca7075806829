"""The commands in the blocks of a guide."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["Guide", "commands_of"]


def commands_of(text: str) -> list[str]:
    """The lines of all blocks, without comments, in their order."""
    blocks = re.findall(r"^```.*?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


class Guide:
    """What a test has to type: all commands of a page, or of those sections whose headings begin with `sections`.

    `left` is what nobody has taken: at the end of a test there must be nothing.
    """

    def __init__(self, page: Path, *sections: str) -> None:
        parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        self.left = commands_of("\n".join(part for part in parts if part.startswith(sections or ("",))))

    def take(self, begin: str) -> str:
        """The next command that begins with it, whole."""
        line = next((line for line in self.left if line.startswith(begin)), None)
        assert line is not None, (begin, self.left)
        self.left.remove(line)
        return line
