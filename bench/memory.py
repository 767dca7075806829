"""Touches memory before a turn starts.

A virtual machine may get each page from its host only when it is touched, and give idle pages back. That can cost
more than everything that a broker does with the page.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

#: Bytes: several times the files of a turn, since the kernel does not take next the pages that were freed last.
_WANTED: Final = 6 << 30


def touch() -> None:
    """Touches some GiB of memory, or half of what is free."""
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    with mmap.mmap(-1, max(mmap.PAGESIZE, min(_WANTED, free // 2))) as pages:
        for at in range(0, len(pages), mmap.PAGESIZE):
            pages[at] = 1
