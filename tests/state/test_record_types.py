"""A record is of the form of its kind, or is left out: from a topic as from a file."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.state.record import Kind, Record, Version
from replicator.state.record_types import Misfit, counter_limit, fit, fit_all
from replicator.state.shared_state import SharedState
from tests.support.page import TOPIC
from tests.support.records import CONNECTOR, RECORDS, VALUES

NOW = 1_800_000_000.0
#: What begins a line, or turns the text around that follows.
BIDIRECTIONAL = "\u2028\u2029\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@given(RECORDS)
def test_what_workers_write_fits(record: Record) -> None:
    assert fit(record.kind, record.key, [*record.version], record.value, now=NOW) == record


@given(st.lists(RECORDS, max_size=8), st.data())
def test_all_at_once_is_as_one_by_one(records: list[Record], more: st.DataObject) -> None:
    """Also with a value in between that is of no kind."""
    rows: list[Any] = [list(record) for record in records]
    for row in rows:
        if more.draw(st.integers(0, 5)) == 0:
            row[more.draw(st.integers(0, 3))] = more.draw(st.sampled_from([5, "x", None, [], {}, [2**53, "w"]]))
    expected, left = [], 0
    for row in rows:
        try:
            expected.append(fit(*row, now=NOW))
        except (Misfit, TypeError):
            left += 1
    found, skipped = fit_all(msgspec.json.encode(rows), now=NOW)
    assert found == expected
    assert len(skipped) == left


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("route/status", {"owner": "w", "kinds": {"topics": dict.fromkeys(("at", "applied", "blocked"), 1)}}),
        ("route/audit", {"entries": "x"}),
        ("route/request", {"id": 5}),
        ("route/answer", {"id": "x", "done": 5}),
        ("route/acl", {"broker": 5}),
        ("route/audit//", 5),
        ("route/topics/b/orders", {"wanted": {}, "got": 5, "source": "x"}),
    ],
)
def test_records_of_the_metadata_task_have_forms_too(key: str, value: Any) -> None:
    with pytest.raises(Misfit):
        fit("sync", key, [1, "w"], value, now=NOW)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("value", [5, [1, 2], {}, {"x": 1}, "x", True])
def test_any_other_value_is_a_misfit(kind: Kind, value: Any) -> None:
    with pytest.raises(Misfit):
        fit(kind, VALUES[kind][0], [1, "w"], value, now=NOW)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("nothing", "k", {}),
        ("connector", "a b", CONNECTOR),
        ("connector", "a\x1b[2J", CONNECTOR),
        ("connector", "route", CONNECTOR | {"state": "DANCING"}),
        ("connector", "route", CONNECTOR | {"epoch": -1}),
        ("connector", "route", CONNECTOR | {"config": {"x": [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}}),
        ("task", "route/orders", VALUES[Kind.TASK][1] | {"queues": {"a": "b/0"}}),
        ("task", "route/orders", VALUES[Kind.TASK][1] | {"queues": {"a/0": "b/99999999999"}}),
        *(
            ("task", "route/orders", VALUES[Kind.TASK][1] | queues)
            for queues in (
                {"queues": {"a/0": "b/16384"}},
                {"queues": {"a/999999999": "b/0"}},
                {"late": ["a/16384"]},
                {"fresh": ["a/16384"]},
                {"moved": {"a/16384": "skip"}},
                {"left": ["b/16384"]},
            )
        ),
        ("task", "route/orders", VALUES[Kind.TASK][1] | {"target_topic": "a b"}),
        ("assignment", "other", VALUES[Kind.ASSIGNMENT][1]),
        ("offset", "r/t/b/0", VALUES[Kind.OFFSET][1] | {"intervals": [[15, 110, 5], [2, 100, 10]]}),
        ("offset", "r/t/b/0", VALUES[Kind.OFFSET][1] | {"intervals": [[0, 0, 0]]}),
        ("offset", "r/t/b/0", VALUES[Kind.OFFSET][1] | {"store_timestamp": 2**63}),
        ("position", "r/t/b/0", {"position": 1}),
        ("position", "r/t/b/0", {"position": 2**64, "start": 0}),
        ("position", "r/t/b/0", {"position": 1, "start": 0, "anomalies": {"gaps": "x"}}),
        ("status", "zz\x1b[2J", {"topics": [], "problems": {}}),
        ("task", "k" * 1001, VALUES[Kind.TASK][1]),
    ],
)
def test_what_does_not_fit(kind: str, key: str, value: Any) -> None:
    with pytest.raises(Misfit):
        fit(kind, key, [1, "w"], value, now=NOW)


@pytest.mark.parametrize("harmful", [*map(chr, range(32)), *map(chr, range(127, 160)), *BIDIRECTIONAL])
def test_no_text_changes_what_a_terminal_shows(harmful: str) -> None:
    """Nor what people believe to read. Texts of several lines have line breaks and tabs, others not even these."""
    for said, may in (({"reason": f"a{harmful}b"}, harmful in "\t\n\r"), ({"state": f"a{harmful}b"}, False)):
        value = {"topics": [{**TOPIC, **said}], "problems": {}}
        if may:
            fit("status", "w", [1, "w"], value, now=NOW)
            continue
        with pytest.raises(Misfit):
            fit("status", "w", [1, "w"], value, now=NOW)
    for kind, key, value in (
        ("task", "route/orders", VALUES[Kind.TASK][1] | {"queues": {f"a{harmful}/0": "b/0"}}),
        ("broker", f"source/a{harmful}", VALUES[Kind.BROKER][1]),
        ("sync", f"route/topics/b/a{harmful}", VALUES[Kind.SYNC][1]),
    ):
        with pytest.raises(Misfit):
            fit(kind, key, [1, "w"], value, now=NOW)


@pytest.mark.parametrize(
    "version",
    [
        5,
        [],
        [1],
        ["1", "w"],
        [1, "w", 2],
        [-1, "w"],
        [2**64, "w"],
        [2**63, "w"],
        [1, "w" * 101],
        [1, "a b"],
        [True, "w"],
    ],
)
def test_versions_have_a_form(version: Any) -> None:
    with pytest.raises(Misfit):
        fit("connector", "route", version, None, now=NOW)


@given(st.integers(1, 2**31))
def test_no_version_wins_for_ever(now: int) -> None:
    """The greatest that is taken at any moment is exceeded by whoever changes the key a second later."""
    limit = counter_limit(now)
    taken = fit("connector", "route", [limit, "zzz"], CONNECTOR, now=now)
    with pytest.raises(Misfit, match="further than any group can have counted"):
        fit("connector", "route", [limit + 1, "zzz"], CONNECTOR, now=now)
    state = SharedState("me")
    state.merge(taken)
    later = state.put(Kind.CONNECTOR, "route", None)
    assert later.version > taken.version
    fit(later.kind, later.key, later.version, later.value, now=now + 1)


def test_a_busy_group_never_comes_near_the_limit() -> None:
    """100,000 changes a second for a hundred years, from the day on which this was written."""
    century = 100 * 365 * 86400
    began = time.time()
    assert 100_000 * century < counter_limit(began)
    assert Version(100_000 * century, "w") < Version(counter_limit(began), "w")


@pytest.mark.parametrize("kind", list(Kind))
def test_a_version_beyond_the_limit_is_left_out_among_others(kind: Kind) -> None:
    """Of every kind, and alone: the others of the message are taken."""
    key, value = VALUES[kind]
    rows = [[kind, key, [counter, "w"], value] for counter in (counter_limit(NOW) + 1, 5)]
    found, skipped = fit_all(msgspec.json.encode(rows), now=NOW)
    assert found == [Record(kind, key, Version(5, "w"), value)]
    assert [each.key for each in skipped] == [f"{kind} {key}"]


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("offset", "r/t/b/0", VALUES[Kind.OFFSET][1] | {"intervals": [[15, 110, 5], [2, 100, 10]]}),
        ("task", "route/orders", VALUES[Kind.TASK][1] | {"queues": {"a/0": "b/999999999"}}),
        ("position", "r/t/b/0", {"position": 1}),
        ("position", "r/0", {"position": {"x": [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}}),
        ("connector", "route", CONNECTOR | {"state": "DANCING"}),
        ("sync", "route/audit", {"entries": "x"}),
    ],
)
def test_what_types_cannot_say_is_checked_among_others(kind: str, key: str, value: Any) -> None:
    found, skipped = fit_all(msgspec.json.encode([[kind, key, [1, "w"], value]]), now=NOW)
    assert (found, len(skipped)) == ([], 1)
