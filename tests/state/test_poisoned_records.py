"""Whatever somebody has written into a record, whoever reads it goes on: page, commands and the worker itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replicator.state.record import Kind
from tests.support.page import TOPIC
from tests.support.record_readers import READERS, Readers, merge
from tests.support.records import CONNECTOR, VALUES

_STEP = {
    "kind": "topics",
    "action": "change",
    "broker": "b",
    "name": "orders",
    "before": None,
    "after": {"perm": 6},
}
_DONE = _STEP | {"blocked": "", "note": "", "error": ""}
_AUDITED = _DONE | {"at": 1000.0, "worker": "w", "connector": "route"}
_RESOURCE = {"at": 1.0, "applied": 0, "blocked": 0, "drift": 0, "failed": 0, "reasons": []}
_QUEUE = "route/orders/a/0"
_TASK = VALUES[Kind.TASK][1]
_POSITION, _OFFSET = VALUES[Kind.POSITION][1], VALUES[Kind.OFFSET][1]
_AUDIT = {"to": 2**63 - 1, "rules": 0, "verified": 2**63 - 1, "differences": {"body": 2**63 - 1}}

#: Of each kind what workers write, all of it.
GOOD: list[tuple[str, str, Any]] = [
    *((str(kind), key, value) for kind, (key, value) in VALUES.items()),
    (
        "sync",
        "route/topics/b/orders",
        {"wanted": {"perm": 6, "order": False}, "got": {"perm": 4}, "source": "orders"},
    ),
    ("sync", "route/topics/n:1/order configuration of T", {"wanted": {"queues": "b:4"}, "got": {}, "source": "T"}),
    ("sync", "route/groups/b/g", {"wanted": {"retryMaxTimes": 3, "x": [1]}, "got": {}, "source": "g"}),
    ("sync", "route/status", {"owner": "w", "kinds": {"topics": _RESOURCE}}),
    ("sync", "route/audit", {"entries": [_AUDITED, _AUDITED | {"actor": "REST 10.0.0.1"}]}),
    ("sync", "route/request", {"id": "x", "force": ["g"], "until": 1000.0, "by": "REST"}),
    ("sync", "route/answer", {"id": "x", "done": [_DONE], "earlier": [{"id": "y", "done": None}]}),
    ("sync", "route/release", {"by": "w", "topics": [], "done": False}),
    ("sync", "route/failover", {"by": "w", "incarnation": "i"}),
    ("sync", "route/acl", {"b": {"accounts": {"app": "created"}, "white": ["10.0.0.1"], "deleted": {"x": "0f"}}}),
    ("status", "w1", {"topics": [TOPIC], "problems": {}}),
]

#: Of each kind what nobody of the group writes.
POISONED: list[tuple[str, str, Any]] = [
    ("connector", "route", CONNECTOR | {"config": {"topics": [[1]], "rate_messages": 1e308}}),
    ("connector", "route", CONNECTOR | {"config": {"start_from": 10**18}}),
    ("task", "route/orders", _TASK | {"queues": {"a/0": "b/999999999"}}),
    ("task", "route/orders", _TASK | {"queues": {"a/999999999": "b/0"}}),
    ("task", "route/orders", _TASK | {"left": ["b/16384"]}),
    ("assignment", "", {"members": ["w"], "owners": {"": "", "/": "w", "route//0": "w"}}),
    ("position", _QUEUE, {"position": {"x": 1}}),
    ("position", _QUEUE, _POSITION | {"audit": _AUDIT}),
    ("position", _QUEUE, _POSITION | {"audit": _AUDIT | {"latest": [["body", None, None, ""]]}}),
    ("position", _QUEUE, _POSITION | {"copied": 2**63 - 1}),
    ("position", _QUEUE, _POSITION | {"anomalies": {"gaps": 2**63 - 1, "skipped": {"x": 2**63 - 1}}}),
    ("offset", _QUEUE, _OFFSET | {"store_timestamp": 2**62}),
    ("status", "w1", {"topics": [{**TOPIC, "lag_seconds": 1e308}], "problems": {}}),
    ("status", "w1", {"topics": [{**TOPIC, "verified_age_seconds": 1e300}], "problems": {}}),
    ("sync", "route/topics/b/orders", {"wanted": {"perm": "x"}, "got": {}, "source": "orders"}),
    ("sync", "route/topics/b/orders", {"wanted": {"perm": 2**70}, "got": {"attributes": []}, "source": "orders"}),
    ("sync", "route/status", {"kinds": {"topics": _RESOURCE | {"at": 1e308}}}),
    ("sync", "route/audit", {"entries": [{}]}),
    ("sync", "route/audit", {"entries": [{"at": "now"}]}),
    ("sync", "route/audit", {"entries": [_AUDITED | {"at": 1e308}]}),
    ("sync", "route/request", {"until": 4e9}),
    ("sync", "route/request", {"id": "x", "until": 4e9}),
    ("sync", "route/answer", {"done": None}),
    ("sync", "route/answer", {"id": "x", "done": [{}]}),
    ("sync", "route/answer", {"id": "x", "done": [_DONE | {"before": 5}]}),
    ("sync", "route/release", {"by": "w9"}),
    ("sync", "route/release", {"by": "w", "topics": [], "done": None}),
    ("acl", "route/acl", {"b": {}}),
    ("acl", "route/acl", {"b": {"accounts": {"app": "mine"}, "white": []}}),
    ("clusters", "", {"group": "g", "source": {"id": "east", "namesrv": [""]}, "target": {"id": "t"}}),
    ("broker", "source/a", {"forgotten_at": 1e308}),
]


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[Readers]:
    made = Readers(tmp_path)
    yield made
    made.close()


def _row(kind: str, key: str, value: Any) -> list[Any]:
    return ["sync" if kind == "acl" else kind, key, [10**6, "evil"], value]


@pytest.mark.parametrize(("kind", "key", "value"), GOOD)
def test_what_workers_write_is_taken_and_read(readers: Readers, kind: str, key: str, value: Any) -> None:
    assert merge(readers.paged, [_row(kind, key, value)]) == []
    READERS["acl" if key == "route/acl" else kind](readers)


@pytest.mark.parametrize(("kind", "key", "value"), POISONED)
def test_what_others_write_ends_no_reader(readers: Readers, kind: str, key: str, value: Any) -> None:
    """It is left out, or does no harm; beside what is already known, too."""
    known = ("task", "route/orders", _TASK), ("position", _QUEUE, _POSITION), ("offset", _QUEUE, _OFFSET)
    assert merge(readers.paged, [[kind, key, [1, "w"], value] for kind, key, value in known]) == []
    merge(readers.paged, [_row(kind, key, value)])
    READERS[kind](readers)
