"""Holds what commands print as JSON to docs/cli-schemas.json."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from tools.cli_schemas import PRINTED

__all__ = ["check_printed"]


def check_printed(arguments: Sequence[str], printed: str | bytes) -> None:
    """Raises an error if a command printed JSON that is not as described; a refused one prints nothing.

    Args:
        arguments: the command and its options, as they were given.

    Raises:
        ValidationError: the JSON is of another form.
        LookupError: the command's JSON is not described.
    """
    if "json" not in arguments or not printed:
        return
    names = [name for name in (arguments[0], " ".join(arguments[:2])) if name in PRINTED]
    if not names:
        raise LookupError(f"the JSON of {' '.join(arguments[:2])} is not described")
    _adapter(names[-1]).validate_json(printed, strict=True)


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(PRINTED[name])
