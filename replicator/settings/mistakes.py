"""What to give instead of a value that does not fit its setting, where the library that checks it says less."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

__all__ = ["way_out"]

#: By the kind of the mistake, with what is allowed there.
_SAID: Final = {
    **dict.fromkeys(("bool_type", "bool_parsing"), "give true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "give a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "give a number"),
    "finite_number": "give a finite number",
    "greater_than_equal": "give at least {ge}",
    "greater_than": "give more than {gt}",
    "less_than_equal": "give at most {le}",
    "less_than": "give less than {lt}",
    **dict.fromkeys(("literal_error", "enum"), "give {expected}"),
    "string_type": "give a text",
    "string_too_short": "give at least {min_length} characters",
    "string_too_long": "give up to {max_length} characters",
    "path_type": "give a path",
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "give a list"),
    "too_short": "give at least {min_length}",
    "too_long": "give up to {max_length}",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "give a table of settings"),
    "missing": "it is required",
    "extra_forbidden": "it is not known here",
    "json_invalid": "give JSON",
}
#: Where one is the least.
_OF_NONE: Final = {
    "string_too_short": "give a text that is not empty",
    "too_short": "give a value that is not empty",
}
#: Of a value on the command line.
_CHOICE: Final = re.compile(r"'.*' is not one of (?P<expected>.+)\.")


def way_out(problem: ErrorDetails) -> str:
    """What to give instead, in one line; in the library's words where there are none of ours."""
    kind, limits = problem["type"], problem.get("ctx", {})
    if kind in _OF_NONE and limits.get("min_length") == 1:
        return _OF_NONE[kind]
    if said := _SAID.get(kind):
        return said.format_map(_written(limits))
    message = problem["msg"].removeprefix("Value error, ")
    if choice := _CHOICE.fullmatch(message):
        return f"give {_one_of(choice['expected'])}"
    return message


def _written(limits: Mapping[str, Any]) -> dict[str, object]:
    """Choices without quotes, and whole numbers without a fraction."""
    return {
        name: int(limit)
        if isinstance(limit, float) and limit.is_integer()
        else limit.replace("'", "")
        if isinstance(limit, str)
        else limit
        for name, limit in limits.items()
    }


def _one_of(choices: str) -> str:
    first, _, last = choices.replace("'", "").rpartition(", ")
    return f"{first} or {last}" if first else last
