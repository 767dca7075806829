"""Memory that is at hand before a turn begins.

A virtual machine may get each page from its host only when it is touched, and give back what lies idle. That can
cost more than all that a broker does with the page.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

#: Bytes: several times what a turn's files take, since what is given back is not what is taken next.
_WANTED: Final = 6 << 30


def touch() -> None:
    """Has some GiB of memory at hand, or half of what is free."""
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    with mmap.mmap(-1, max(mmap.PAGESIZE, min(_WANTED, free // 2))) as pages:
        for at in range(0, len(pages), mmap.PAGESIZE):
            pages[at] = 1
