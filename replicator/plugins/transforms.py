"""The transforms of a route: found by their entry points, made of their settings, run on stored messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qsl

from msgspec.structs import replace as with_parts
from pydantic import ValidationError

from replicator.errors import ConfigError, ProtocolError
from replicator.plugins.installed import TRANSFORMS, load
from replicator.plugins.interface import Message, Transform
from replicator.protocol.compression import compress, decompress
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import BROKER_MADE, LIGHT_OFFSETS
from replicator.routing.faults import TransformRefused
from replicator.routing.parked import BROKER_CHANGED
from replicator.routing.provenance import PREFIX
from replicator.routing.queue_map import Queue
from replicator.settings import explain

__all__ = ["Chain", "chain_of", "load_transform", "mistakes_of"]

_FIELD: Final = "transforms"
#: How properties become text and bytes again: what is no UTF-8 comes back as it was.
_ODD: Final = "surrogateescape"
#: Characters of a transform's exception that are reported.
_MAX_REASON: Final = 300
#: Not seen, and kept: they say that a message is in light message queues, and how it waits or has waited.
_HIDDEN: Final = frozenset((LIGHT_OFFSETS, *BROKER_CHANGED))
_RESERVED: Final = frozenset(name.decode() for name in (*BROKER_MADE, *_HIDDEN))


class Chain:
    """Transforms one after the other, as the data path calls them. `named` are those that were configured."""

    def __init__(self, named: Sequence[tuple[str, Transform[Any]]]) -> None:
        self._named = named

    def __call__(self, topic: str, source: Queue, stored: StoredMessage) -> StoredMessage | None:
        """What is to be sent instead of `stored`; None to leave it out.

        Raises:
            TransformRefused: one has raised, or has changed what it may not; or the body cannot be decompressed.
        """
        try:
            body = decompress(stored.body[4:], stored.sys_flag)
        except ProtocolError as error:
            raise TransformRefused(f"its body {error.message}", hint=error.hint) from None
        hidden, properties = _split(stored.properties)
        message = before = Message(
            topic=topic,
            broker=source.broker,
            queue_id=source.queue_id,
            queue_offset=stored.queue_offset,
            born_timestamp=stored.born_timestamp,
            store_timestamp=stored.store_timestamp,
            flag=stored.flag,
            body=body,
            properties=dict(properties),
        )
        for name, transform in self._named:
            try:
                changed = transform.apply(message)
            except Exception as error:
                reason = f"{name!r} raised {type(error).__name__}: {error}"
                raise TransformRefused(reason[:_MAX_REASON]) from error
            if changed is None:
                return None
            if changed is not message:
                _refuse_moved(name, before, changed)
                message = changed
        return _applied(stored, message, body, properties, hidden)


def _split(raw: bytes) -> tuple[list[bytes], dict[str, str]]:
    """Properties that a transform does not see but that stay, as bytes, and those that it sees.

    What else brokers made is in neither.
    """
    hidden: list[bytes] = []
    seen: dict[str, str] = {}
    for part in raw.split(b"\x02"):
        name, _, value = part.partition(b"\x01")
        if part.startswith(PREFIX) or name in _HIDDEN:
            hidden.append(part)
        elif name and name not in BROKER_MADE:
            seen[name.decode(errors=_ODD)] = value.decode(errors=_ODD)
    return hidden, seen


def _refuse_moved(name: str, before: Message, changed: object) -> None:
    if not isinstance(changed, Message):
        raise TransformRefused(f"{name!r} gave a {type(changed).__name__}, which is not a Message")
    if replace(changed, flag=before.flag, body=before.body, properties=before.properties) != before:
        raise TransformRefused(f"{name!r} changed more than flag, body and properties")


def _applied(
    stored: StoredMessage, message: Message, body: bytes, properties: Mapping[str, str], hidden: Sequence[bytes]
) -> StoredMessage:
    """`stored` with what was changed; bytes that were not stay as they are."""
    parts: dict[str, Any] = {}
    flag: Any = message.flag  # whatever a plugin has put there
    new_body: Any = message.body
    if flag != stored.flag:
        if not isinstance(flag, int) or not -(2**31) <= flag < 2**31:
            raise TransformRefused(f"flag {flag!r} is not a signed 32-bit number")
        parts["flag"] = flag
    if new_body != body:
        if not isinstance(new_body, bytes):
            raise TransformRefused(f"the body is a {type(new_body).__name__}, not bytes")
        stored = stored.with_content(compress(new_body, stored.sys_flag), sys_flag=stored.sys_flag)
    if message.properties != properties:
        if not isinstance(message.properties, Mapping):
            raise TransformRefused(f"the properties are a {type(message.properties).__name__}")
        parts["properties"] = b"".join(part + b"\x02" for part in (*hidden, *_encoded(message.properties)))
    return with_parts(stored, **parts) if parts else stored


def _encoded(properties: Mapping[Any, Any]) -> Iterable[bytes]:
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name:
            raise TransformRefused(f"property {name!r} = {value!r} is not a text with a name")
        if name.startswith(PREFIX.decode()) or name in _RESERVED:
            raise TransformRefused(f"property {name} is reserved")
        try:
            part = f"{name}\x01{value}".encode(errors=_ODD)
        except UnicodeEncodeError as error:
            raise TransformRefused(f"property {name!r} = {value!r} is not valid text ({error.reason})") from None
        if part.count(b"\x01") > 1 or b"\x02" in part:
            raise TransformRefused(f"property {name!r} has one of the characters 1 and 2 in it")
        yield part


# Making them.


def load_transform(name: str) -> type[Transform[Any]]:
    """The transform called `name`.

    Raises:
        ConfigError: none is installed, or it cannot be loaded.
    """
    found = load(TRANSFORMS, name, field=_FIELD)
    if not isinstance(found, type) or not issubclass(found, Transform):
        raise ConfigError(f"{_FIELD} = {name!r} is not a transform: it is not a subclass of Transform")
    return found


def chain_of(wanted: Sequence[str], *, waiting: bool = False) -> Chain | None:
    """The transforms that a route is configured with, in order; None when there are none.

    Args:
        wanted: each a name, or `name?key=value&key=value`, with %XX for characters that mean something there.
        waiting: they are given messages that wait at their broker, too.

    Raises:
        ConfigError: all mistakes, one a line.
    """
    made: list[tuple[str, Transform[Any]]] = []
    mistakes: list[str] = []
    for each in wanted:
        try:
            made.append(_make(each, waiting=waiting))
        except ConfigError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return Chain(made) if made else None


def _make(wanted: str, *, waiting: bool) -> tuple[str, Transform[Any]]:
    name, mark, query = wanted.partition("?")
    kind = load_transform(name)
    if waiting and not kind.takes_waiting:
        raise ConfigError(
            f"{_FIELD} = {name!r} takes no messages that wait at their broker, and sync has pending",
            hint="leave pending out of sync, or have the class say `takes_waiting = True` (docs/TRANSFORMS.md)",
        )
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(mark), errors="strict")
    except ValueError:
        raise ConfigError(f"{_FIELD} = {wanted!r}: write name?key=value&key=value") from None
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ConfigError(f"{_FIELD} = {wanted!r}: a key is given twice")
    try:
        return name, kind(kind.config(**values))
    except ValidationError as error:
        lines = explain(error, kind.config)
        raise ConfigError("\n".join(f"{_FIELD} = {name!r}: {line}" for line in lines)) from None
    except Exception as error:
        raise ConfigError(f"{_FIELD} = {wanted!r} cannot be created ({type(error).__name__}: {error})") from error


def mistakes_of(wanted: object, sync: object = None) -> list[str]:
    """What is wrong with `transforms`, beside `sync`, as somebody has given them.

    Nothing where `transforms` is not a list of names at all.
    """
    names = _names(wanted)
    try:
        chain_of(names, waiting="pending" in _names(sync))
    except ConfigError as error:
        return error.message.splitlines()
    return []


def _names(given: object) -> list[str]:
    """The names in a list, or in a text with commas; none where it is neither."""
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return given if isinstance(given, list) and all(isinstance(each, str) for each in given) else []
