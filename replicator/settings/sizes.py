"""Amounts of bytes, as people write them."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo

__all__ = ["Size", "is_size", "size_text"]

_TEXT: Final = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?", re.IGNORECASE)
#: Digits of a number that is worth reading.
_DIGITS: Final = 30
_UNITS: Final = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_BY_LOWER: Final = {name.lower(): size for name, size in _UNITS.items()}


def _size(value: object) -> object:
    if isinstance(value, str):
        match = _TEXT.fullmatch(value.strip())
        if match is None or len(match[1]) > _DIGITS:
            raise ValueError("give bytes, or a number with KiB, MiB or GiB")
        return int(match[1]) * _BY_LOWER[(match[2] or "B").lower()]
    return value


_FROM_TEXT: Final = BeforeValidator(_size)
#: Bytes, up to a petabyte; a text may have a unit.
Size = Annotated[int, _FROM_TEXT, Field(ge=0, le=2**50)]


def is_size(field: FieldInfo) -> bool:
    """Whether a setting is a `Size`."""
    return _FROM_TEXT in field.metadata


def size_text(value: int) -> str:
    """`value` bytes in the largest unit that takes no fraction: `32 MiB`; 0 is `0`."""
    unit = next(name for name in reversed(_UNITS) if value % _UNITS[name] == 0)
    return f"{value // _UNITS[unit]} {unit}" if value else "0"
