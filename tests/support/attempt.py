"""Which attempt of a test this is, for names that no other attempt has used."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["ATTEMPT", "attempt"]

ATTEMPT: Final = "TEST_ATTEMPT"


def attempt() -> str:
    """Nothing the first time, `-2` the second time."""
    number = os.environ.get(ATTEMPT, "1")
    return "" if number == "1" else f"-{number}"
