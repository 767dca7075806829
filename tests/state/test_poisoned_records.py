"""Whatever somebody has written into a record, whoever reads it goes on: page, commands and the worker itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replicator.state.record import Kind
from tests.support.page import TOPIC
from tests.support.record_readers import READERS, Readers, merge, reader_of
from tests.support.records import AUDITED, CONNECTOR, DONE, RESOURCE, VALUES, WRITTEN

_QUEUE = "route/orders/a/0"
_TASK = VALUES[Kind.TASK][1]
_POSITION, _OFFSET = VALUES[Kind.POSITION][1], VALUES[Kind.OFFSET][1]
_AUDIT = {"to": 2**63 - 1, "rules": 0, "verified": 2**63 - 1, "differences": {"body": 2**63 - 1}}

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
    ("sync", "route/status", {"kinds": {"topics": RESOURCE | {"at": 1e308}}}),
    ("sync", "route/audit", {"entries": [{}]}),
    ("sync", "route/audit", {"entries": [{"at": "now"}]}),
    ("sync", "route/audit", {"entries": [AUDITED | {"at": 1e308}]}),
    ("sync", "route/request", {"until": 4e9}),
    ("sync", "route/request", {"id": "x", "until": 4e9}),
    ("sync", "route/answer", {"done": None}),
    ("sync", "route/answer", {"id": "x", "done": [{}]}),
    ("sync", "route/answer", {"id": "x", "done": [DONE | {"before": 5}]}),
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


@pytest.mark.parametrize(("kind", "key", "value"), WRITTEN)
def test_what_workers_write_is_taken_and_read(readers: Readers, kind: str, key: str, value: Any) -> None:
    assert merge(readers.paged, [_row(kind, key, value)]) == []
    reader_of(kind, key)(readers)


@pytest.mark.parametrize(("kind", "key", "value"), POISONED)
def test_what_others_write_ends_no_reader(readers: Readers, kind: str, key: str, value: Any) -> None:
    """It is left out, or does no harm; beside what is already known, too."""
    known = ("task", "route/orders", _TASK), ("position", _QUEUE, _POSITION), ("offset", _QUEUE, _OFFSET)
    assert merge(readers.paged, [[kind, key, [1, "w"], value] for kind, key, value in known]) == []
    merge(readers.paged, [_row(kind, key, value)])
    READERS[kind](readers)
