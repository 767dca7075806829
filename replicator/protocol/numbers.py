"""Whole numbers as brokers have them: of 64 bits, written as digits or as numbers of JSON."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["as_long"]

#: As many as a `long` of Java has at most. Python would read thousands.
_DIGITS: Final = re.compile(r"-?[0-9]{1,19}")
_LIMIT: Final = 2**63


def as_long(value: object) -> int:
    """The integer that `value` is; metrics, JSON and Java hold no longer ones.

    Raises:
        ValueError: the value is not an integer of 64 bits.
    """
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -_LIMIT <= value < _LIMIT:
        raise ValueError(f"{value!r:.40} is not a whole number of 64 bits")
    return value
