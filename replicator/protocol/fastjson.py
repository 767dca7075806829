"""JSON as brokers write it with fastjson: numbers and whole objects may stand as keys.

`{0:"127.0.0.1:10911"}` comes from 106 and 43, `{{"brokerName":"a","queueId":0}:{…}}` from 202 and 208.
Standard JSON takes the fast way; only what is not standard is parsed here.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from replicator.errors import ProtocolError

__all__ = ["ObjectKey", "parse"]

#: An object that stands as a key: its (name, value) pairs, sorted by name.
ObjectKey = tuple[tuple[str, Any], ...]

#: Levels. RocketMQ's own answers nest less than ten; the limit keeps the recursion bounded.
MAX_DEPTH: Final = 64

#: Characters of what could not be read that an error shows.
_SHOWN: Final = 40

_SPACE = re.compile(r"[ \t\r\n]*")
_BARE = re.compile(r"[^\s,:{}\[\]\"]+")
# Possessive: a string of backslashes would take a hundred times its size to remember where to go back to.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def parse(data: bytes) -> Any:
    """The value in `data`. Bare keys become strings, object keys an `ObjectKey`.

    Raises:
        ProtocolError: neither JSON nor fastjson's variant of it.
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        pass
    except RecursionError:
        raise ProtocolError(f"an answer nested deeper than {MAX_DEPTH} levels") from None
    except UnicodeDecodeError:
        raise ProtocolError("an answer that is not UTF-8 text") from None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ProtocolError("an answer that is not UTF-8 text") from None
    value, at = _value(text, _skip(text, 0), 0)
    at = _skip(text, at)
    if at != len(text):
        raise ProtocolError(f"an answer with extra text after its JSON, at character {at}")
    return value


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    head = text[at : at + 1]
    if head == "{":
        return _object(text, at + 1, depth)
    if head == "[":
        return _array(text, at + 1, depth)
    if head == '"':
        return _string(text, at)
    match = _BARE.match(text, at)
    if match is None:
        raise ProtocolError(f"an answer that is not JSON at character {at}")
    try:
        return msgspec.json.decode(match.group()), match.end()
    except msgspec.DecodeError:
        raise ProtocolError(f"an answer with {match.group()[:_SHOWN]!r} where a value should be") from None


def _string(text: str, at: int) -> tuple[str, int]:
    match = _STRING.match(text, at)
    if match is None:
        raise ProtocolError(f"an answer with an open string at character {at}")
    try:
        return msgspec.json.decode(match.group(), type=str), match.end()
    except msgspec.DecodeError:
        raise ProtocolError(f"an answer with a broken string at character {at}") from None


def _key(text: str, at: int, depth: int) -> tuple[str | ObjectKey, int]:
    head = text[at : at + 1]
    if head == '"':
        return _string(text, at)
    if head == "{":
        return _object_key(text, at, depth)
    match = _BARE.match(text, at)
    if match is None:
        raise ProtocolError(f"an answer without a key at character {at}")
    return match.group(), match.end()


def _object_key(text: str, at: int, depth: int) -> tuple[ObjectKey, int]:
    value, end = _object(text, at + 1, depth + 1)
    try:
        key = tuple(sorted(value.items()))
        hash(key)
    except TypeError:
        raise ProtocolError(f"an answer with an object that cannot be a key at character {at}") from None
    return key, end


def _bounded(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ProtocolError(f"an answer nested deeper than {MAX_DEPTH} levels")


def _object(text: str, at: int, depth: int) -> tuple[dict[Any, Any], int]:
    _bounded(depth)
    result: dict[Any, Any] = {}
    at = _skip(text, at)
    while text[at : at + 1] != "}":
        key, at = _key(text, at, depth)
        at = _expect(text, at, ":")
        result[key], at = _value(text, at, depth + 1)
        at = _next(text, at, "}")
    return result, at + 1


def _array(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    _bounded(depth)
    result: list[Any] = []
    at = _skip(text, at)
    while text[at : at + 1] != "]":
        value, at = _value(text, at, depth + 1)
        result.append(value)
        at = _next(text, at, "]")
    return result, at + 1


def _expect(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != sign:
        raise ProtocolError(f"an answer without {sign!r} at character {at}")
    return _skip(text, at + 1)


def _next(text: str, at: int, closing: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != closing:
        raise ProtocolError(f"an answer without ',' or {closing!r} at character {at}")
    return at
