"""What a record of each kind may say. Checked where it is read, from a system topic or a state file; what does not
fit is left out, so that no reader meets a value of another form. Pure.

A counter of a version may be at most as great as a million for each second since 1970. No group counts so fast, and
whoever is beaten by a counter at the limit can exceed it a moment later: no record wins for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from replicator.errors import ReplicatorError
from replicator.routing.queue_map import MAX_QUEUES, Queue
from replicator.state import record_values as values
from replicator.state import sync_values
from replicator.state.record import Kind, Record, Version
from replicator.state.record_values import Count, Text, WorkerId

__all__ = ["Count", "Misfit", "Skipped", "Text", "WorkerId", "counter_limit", "fit", "fit_all"]

#: Version counters, or generations, for each second since 1970, at most.
_PER_SECOND: Final = 1_000_000
#: Levels of a value that no type bounds: a configuration of a connector, a position of a plugin.
_DEPTH: Final = 16


class Misfit(ReplicatorError):
    """A record that is not of the form of its kind."""


class Skipped(NamedTuple):
    """A record that was left out, and why."""

    key: str
    reason: str


_SYNC: Final[Mapping[str, Any]] = {
    "status": sync_values.SyncStatus,
    "audit": sync_values.SyncAudit,
    "request": sync_values.SyncRequest,
    "answer": sync_values.SyncAnswer,
    "release": sync_values.SyncRelease,
    "failover": sync_values.SyncFailover,
    "in_flight": dict[Literal["queues"], Annotated[list[sync_values.HeldQueue], Meta(max_length=10_000)]],
    "acl": dict[Text, sync_values.OwnedAccounts],
}
#: Entries of the ledger, `connector/kind/broker/item`, by their kind.
_LEDGER: Final[Mapping[str, Any]] = {"topics": sync_values.SyncTopic}
_VALUES: Final[Mapping[Kind, Any]] = {
    Kind.CONNECTOR: values.ConnectorValue,
    Kind.TASK: values.Task,
    Kind.ASSIGNMENT: values.Assignment,
    Kind.POSITION: values.Position,
    Kind.OFFSET: values.Offset,
    Kind.STATUS: values.Status,
    Kind.CLUSTERS: values.Clusters,
    Kind.BROKER: values.Broker,
}
_KEYS: Final[Mapping[Kind, Any]] = {
    Kind.CONNECTOR: values.Connector,
    Kind.ASSIGNMENT: Literal[""],
    Kind.STATUS: WorkerId,
    Kind.CLUSTERS: Literal[""],
    Kind.BROKER: Annotated[str, Meta(max_length=300, pattern=rf"\A(source|target)/[^\x00-\x1f{values.HIDDEN}]+\Z")],
}


def counter_limit(now: float) -> int:
    """The greatest counter of a version, or number of a generation, at `now` seconds since 1970."""
    return int(now * _PER_SECOND)


def fit(kind: str, key: str, version: object, value: object, *, now: float) -> Record:
    """The record that these parts are.

    Args:
        now: seconds since 1970.

    Raises:
        Misfit: they are none; says what does not fit.
    """
    try:
        of = Kind(kind)
        given = [*version] if isinstance(version, tuple) else version
        counter, worker = msgspec.convert(given, tuple[Count, WorkerId])
        if counter > counter_limit(now):
            raise Misfit(f"the counter of its version, {counter}, is further than any group can have counted")
        key = msgspec.convert(key, _KEYS.get(of, Text))
        if value is not None:
            _refuse_depth(value, _DEPTH)
            found = msgspec.convert(value, _type_of(of, key))
            _CHECKS.get(of, _nothing)(found, value)
    except (msgspec.ValidationError, ValueError) as error:
        raise Misfit(str(error)) from None
    return Record(of, key, Version(counter, worker), value)


def _type_of(kind: Kind, key: str) -> Any:
    if kind is not Kind.SYNC:
        return _VALUES[kind]
    _, _, name = key.partition("/")
    return _SYNC.get(name) or _LEDGER.get(name.partition("/")[0], sync_values.SyncEntry)


def _refuse_depth(value: object, left: int) -> None:
    if left == 0:
        raise Misfit(f"it is more than {_DEPTH} levels deep")
    if isinstance(value, dict):
        for each in value.values():
            _refuse_depth(each, left - 1)
    elif isinstance(value, list):
        for each in value:
            _refuse_depth(each, left - 1)


def _nothing(found: object, value: object) -> None:
    """Its types say all."""


def _position_has_a_start(_: values.Position | None, value: dict[str, Any]) -> None:
    if isinstance(value["position"], int) and "start" not in value:
        raise Misfit("a queue's position has no start")


def _intervals_grow(_: values.Offset | None, value: dict[str, Any]) -> None:
    source = target = 0
    for one, other, length in value["intervals"]:
        if one < source or other < target or length < 1:
            raise Misfit("its intervals do not grow")
        source, target = one + length, other + length


def _queues_are_few(_: values.Task | None, value: dict[str, Any]) -> None:
    queues = value["queues"]
    others = (*value["late"], *value["fresh"], *value.get("moved", ()), *value.get("left", ()))
    for name in (*queues, *queues.values(), *others):
        if Queue.parse(name).queue_id >= MAX_QUEUES:
            raise Misfit(f"no topic of {MAX_QUEUES:,} queues on a broker has a queue {name}")


#: What types cannot say, of kinds whose rows say all of them.
_CHECKS: Final[Mapping[Kind, Callable[[Any, Any], None]]] = {
    Kind.TASK: _queues_are_few,
    Kind.POSITION: _position_has_a_start,
    Kind.OFFSET: _intervals_grow,
}


# All records of a message at once, in compiled code.


class _Row(Struct, array_like=True, tag_field="kind"):
    key: Text
    version: tuple[Count, WorkerId]


class _ConnectorRow(_Row, tag=Kind.CONNECTOR.value):
    value: Any


class _TaskRow(_Row, tag=Kind.TASK.value):
    value: values.Task | None


class _AssignmentRow(_Row, tag=Kind.ASSIGNMENT.value):
    value: values.Assignment | None


class _PositionRow(_Row, tag=Kind.POSITION.value):
    value: values.Position | None


class _OffsetRow(_Row, tag=Kind.OFFSET.value):
    value: values.Offset | None


class _StatusRow(_Row, tag=Kind.STATUS.value):
    value: values.Status | None


class _SyncRow(_Row, tag=Kind.SYNC.value):
    value: Any


class _ClustersRow(_Row, tag=Kind.CLUSTERS.value):
    value: values.Clusters | None


class _BrokerRow(_Row, tag=Kind.BROKER.value):
    value: values.Broker | None


class _Odd(Struct, array_like=True):
    kind: Annotated[str, Meta(max_length=100)]
    key: Annotated[str, Meta(max_length=10_000)]
    version: Any
    value: Any


_ROWS: Final = msgspec.json.Decoder(
    list[
        _ConnectorRow
        | _TaskRow
        | _AssignmentRow
        | _PositionRow
        | _OffsetRow
        | _StatusRow
        | _SyncRow
        | _ClustersRow
        | _BrokerRow
    ]
)
_RECORDS: Final = msgspec.json.Decoder(list[Record])
_ODD: Final = msgspec.json.Decoder(_Odd)


def fit_all(raw: bytes, *, now: float) -> tuple[list[Record], list[Skipped]]:
    """The records of a JSON array, and those that were left out.

    Raises:
        msgspec.DecodeError: the text is not an array.
    """
    records: list[Record] = []
    skipped: list[Skipped] = []
    try:
        _ROWS.decode(raw)
        found = _RECORDS.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        for each in msgspec.json.decode(raw, type=list[msgspec.Raw]):
            _sort(each, records, skipped, now)
        return records, skipped
    limit = counter_limit(now)
    for record in found:
        check = _CHECKS.get(record.kind)
        try:
            if check is None or record.version.counter > limit or _is_a_plugins(record):
                fit(record.kind, record.key, record.version, record.value, now=now)
            elif record.value is not None:
                check(None, record.value)
        except Misfit as error:
            skipped.append(Skipped(f"{record.kind} {record.key}", str(error)))
        else:
            records.append(record)
    return records, skipped


def _is_a_plugins(record: Record) -> bool:
    value = record.value
    return record.kind is Kind.POSITION and value is not None and not isinstance(value["position"], int)


def _sort(raw: msgspec.Raw, records: list[Record], skipped: list[Skipped], now: float) -> None:
    name = ""
    try:
        parts = _ODD.decode(raw)
        name = f"{parts.kind} {parts.key}"
        records.append(fit(parts.kind, parts.key, parts.version, parts.value, now=now))
    except (Misfit, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        skipped.append(Skipped(name, str(error)))
