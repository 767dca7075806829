"""How often Python looks for garbage: with its own settings it does so for ever where thousands of queues live."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["rarely_collected"]

#: Objects made and not ended before the newest are looked through for garbage, and how many such looks before older
#: ones are looked through. With Python's own 700 a worker of ten thousand queues spent half of its time on it.
_THRESHOLD: Final = (20_000, 10, 10)


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Meanwhile this process looks for garbage less often; what it was set to before holds again at the end."""
    before = gc.get_threshold()
    if before[0] >= _THRESHOLD[0]:  # as in a thread of a worker
        yield
        return
    gc.set_threshold(*_THRESHOLD)
    try:
        yield
    finally:
        gc.set_threshold(*before)
