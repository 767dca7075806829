"""Records of the shared state as workers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

from replicator.state.record import Kind, Record, Version

__all__ = ["AUDITED", "CONNECTOR", "DONE", "RECORDS", "RESOURCE", "TOPIC", "VALUES", "WRITTEN"]

CONNECTOR: Final = {"config": {"topics": ["orders"]}, "state": "RUNNING", "origin": "rest", "epoch": 0}
_TASK: Final = {"target_topic": "orders", "queues": {"a/0": "b/1"}, "late": [], "fresh": ["a/0"]}
_MOVED: Final = {"moved": {"a/0": "resend"}, "left": ["c/1"]}
_OFFSET: Final = {
    "target": ["b", 1],
    "target_floor": 7,
    "store_timestamp": 1700000000000,
    "clean": True,
    "intervals": [[2, 100, 10], [15, 110, 5]],
}

#: A topic as a worker publishes it.
TOPIC: Final[Mapping[str, Any]] = {
    "topic": "orders",
    "connector": "route",
    "queues": 2,
    "failed": 0,
    "waiting": 0,
    "severity": 4,
    "state": "RUNNING",
    "reason": "",
    "stalled": 0,
    "copied": 48_211,
    "lag_messages": 3,
    "lag_seconds": 0.2,
    "gap_messages": 0,
    "target_lost": 0,
    "late": 0,
    "duplicates": 0,
    "foreign": 0,
    "skipped": 0,
    "verified": 48_102,
    "unverified": 0,
    "audit_differences": 0,
    "verified_age_seconds": 1.9,
}

#: A key and a value of each kind; of `SYNC` the ledger's entries.
VALUES: Final[dict[Kind, tuple[str, Any]]] = {
    Kind.CONNECTOR: ("route", CONNECTOR),
    Kind.TASK: ("route/orders", _TASK | _MOVED),
    Kind.ASSIGNMENT: ("", {"members": ["w"], "owners": {"route/orders": "w"}}),
    Kind.POSITION: ("route/orders/a/0", {"position": 5, "start": 0, "copied": 5, "known_end": 9, "seen": [4, 17]}),
    Kind.OFFSET: ("route/orders/a/0", _OFFSET),
    Kind.STATUS: ("w", {"topics": [], "problems": {"orders": "none"}}),
    Kind.SYNC: ("route/topics/b/orders", {"wanted": {"perm": 6}, "got": {}, "source": "orders"}),
    Kind.CLUSTERS: (
        "",
        {"group": "east-west", "source": {"id": "east", "namesrv": ["a:1"]}, "target": {"id": "west"}},
    ),
    Kind.BROKER: ("source/a", {"forgotten_at": 1700000000.0, "resume": {"route": "RUNNING"}}),
}

#: What the metadata task has done of one topic, and how it stands.
DONE: Final = {
    "kind": "topics",
    "action": "update",
    "broker": "b",
    "name": "orders",
    "before": None,
    "after": {"perm": 6},
    "blocked": "",
    "note": "",
    "error": "",
}
AUDITED: Final = DONE | {"at": 1000.0, "worker": "w", "connector": "route"}
RESOURCE: Final = {"at": 1.0, "applied": 0, "blocked": 0, "drift": 0, "failed": 0, "reasons": []}

#: Of each kind what workers write, all of it.
WRITTEN: Final[Sequence[tuple[str, str, Any]]] = [
    *((str(kind), key, value) for kind, (key, value) in VALUES.items()),
    (
        "sync",
        "route/topics/b/orders",
        {"wanted": {"perm": 6, "order": False}, "got": {"perm": 4}, "source": "orders"},
    ),
    ("sync", "route/topics/n:1/order configuration of T", {"wanted": {"queues": "b:4"}, "got": {}, "source": "T"}),
    ("sync", "route/groups/b/g", {"wanted": {"retryMaxTimes": 3, "x": [1]}, "got": {}, "source": "g"}),
    ("sync", "route/status", {"owner": "w", "kinds": {"topics": RESOURCE}}),
    ("sync", "route/audit", {"entries": [AUDITED, AUDITED | {"actor": "REST 10.0.0.1"}]}),
    ("sync", "route/request", {"id": "x", "force": ["g"], "until": 1000.0, "by": "REST"}),
    ("sync", "route/answer", {"id": "x", "done": [DONE], "earlier": [{"id": "y", "done": None}]}),
    ("sync", "route/release", {"by": "w", "topics": [], "done": False}),
    ("sync", "route/failover", {"by": "w", "incarnation": "i"}),
    ("sync", "route/acl", {"b": {"accounts": {"app": "created"}, "white": ["10.0.0.1"], "deleted": {"x": "0f"}}}),
    ("status", "w1", {"topics": [TOPIC], "problems": {}}),
]

_WORKERS = st.text("abcxyz_.:@-", max_size=8)


@st.composite
def _record(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from(Kind))
    key, value = VALUES[kind]
    if kind in (Kind.TASK, Kind.POSITION, Kind.OFFSET):
        key += draw(st.text("abc", max_size=3))
    return Record(
        kind, key, Version(draw(st.integers(0, 2**48)), draw(_WORKERS)), draw(st.sampled_from([None, value]))
    )


RECORDS = _record()
