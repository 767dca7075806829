"""Values in lines about mistakes, without what may be a secret: such lines end up in logs and tickets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel

__all__ = ["is_collection", "quoted", "shown", "without_user_info"]

#: Stands for what is left out.
_LEFT_OUT: Final = "…"
#: A text that is a table or a list of JSON, TOML or YAML, or gives a secret by its name.
_COLLECTION: Final = re.compile(
    r"\s*(\{.*[\"':=]|\[.*[\"'={,])|.*(secret|password|token)\w*\W*[=:]", re.DOTALL | re.IGNORECASE
)
#: The user and the password of a URL in a line. What they may have in them does not end before the last @.
_OF_URL: Final = re.compile(r"//[^\s'\"]*@")


def is_collection(text: str) -> bool:
    """Whether a text looks like several values in one, as JSON, of which any may be a secret."""
    return _COLLECTION.match(text) is not None


def without_user_info(line: str) -> str:
    """`line` without the users and passwords of the URLs in it."""
    return _OF_URL.sub(f"//{_LEFT_OUT}@", line)


def quoted(text: str) -> str:
    """`text` as it can stand in a line: without the user and the password of an address, or nothing of it."""
    if is_collection(text):
        return repr(_LEFT_OUT)
    user, at, place = text.rpartition("@")
    scheme, slashes, _ = user.partition("//")
    if not at or not (slashes or ":" in user):
        return repr(text)
    return repr(f"{scheme if slashes else ''}{slashes}{_LEFT_OUT}@{place}")


def shown(value: object) -> str:
    """` = VALUE`, for behind a setting's name; empty where the value may have a secret in it."""
    if isinstance(value, Mapping | BaseModel | list | tuple | set | frozenset):
        return ""
    if isinstance(value, str):
        return "" if is_collection(value) else f" = {quoted(value)}"
    return f" = {value!r}"
