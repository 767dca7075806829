"""Records of the shared state as workers write them."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from replicator.state.record import Kind, Record, Version

__all__ = ["CONNECTOR", "RECORDS", "VALUES"]

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
