"""Properties of many messages as names and values, split by compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from replicator.protocol.uniform_run import library

__all__ = ["split"]


class _Pointers(ctypes.Structure):
    """Where pairs go, as `uniform_run.c` says it."""

    _fields_ = tuple(
        (name, ctypes.c_void_p) for name in ("before", "name_ends", "value_ends", "same", "names", "values")
    )


def split(data: int, ends: int, count: int, places: Mapping[str, int], most: int) -> int | None:
    """Splits the properties of `count` messages; only with compiled code.

    Of a name that comes twice in a message the last value is in the place of the first, as in `properties.decode`.

    Args:
        data: the address of all properties, without the byte behind the last of each message.
        ends: that of where they end, which begins with where the first ones start (int32).
        places: addresses of what is written. For each message `before`, the number of pairs before its own, with
            that of all at the end (int32), and `same`, 1 if its pairs, joined again, are its properties (uint8).
            For each pair `name_ends` and `value_ends`, where those end in `names` and `values` (int32, beginning
            with 0), which have room for all of `data` each.
        most: pairs that there is room for.

    Returns:
        the number of pairs; None: there are more, or a message has more than 256 of them.
    """
    found = library().replicator_pairs(data, ends, count, ctypes.byref(_Pointers(**places)), most)
    return None if found < 0 else int(found)
