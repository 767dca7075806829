"""Memory that is at hand before a turn begins.

A virtual machine may get each page from its host only when it is touched, and give back what lies idle. That can
cost more than all that a broker does with the page, and hits whoever comes first.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

#: Bytes beside its body that a message takes in files of both clusters, at most.
_BESIDE: Final = 512
#: How often what a turn writes is in memory: in files, and in the buffers of whoever reads and writes them.
_TIMES: Final = 2


def touch(messages: int, size: int) -> None:
    """Has as much memory at hand as a turn with so many messages of `size` bytes needs, or half of what is free."""
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    wanted = min(_TIMES * messages * (size + _BESIDE), free // 2)
    with mmap.mmap(-1, max(mmap.PAGESIZE, wanted)) as pages:
        for at in range(0, len(pages), mmap.PAGESIZE):
            pages[at] = 1
