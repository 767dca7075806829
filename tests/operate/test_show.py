"""Tables of what a worker answers."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console, RenderableType

from replicator.operate.show import cell, lag_table, table, topic_name
from tests.observe.test_printable import HARMFUL
from tests.support.page import TOPIC


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "yes"), (False, ""), (None, ""), (1234567, "1,234,567"), (0.25, "0.2"), ("RUNNING", "RUNNING")],
)
def test_cells(value: object, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As people read them."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cell(value).plain == shown


@pytest.mark.parametrize("harmful", HARMFUL)
def test_what_others_have_written_is_text_alone(harmful: str) -> None:
    """Records of the group and brokers' remarks may have anything in them."""
    lag = {**TOPIC, "reason": f"a{harmful}b"}
    console = Console(width=500, file=io.StringIO(), record=True, legacy_windows=False)
    console.print(lag_table({f"r{harmful}": {"status": {"topics": [lag]}}}))
    shown = console.export_text()
    assert f"a {harmful[1:]}b" in shown
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize(("value", "shown"), [(1234567, "1234567"), (48211.25, "48211.2"), (True, "yes")])
def test_numbers_in_a_pipe_are_digits_alone(value: object, shown: str) -> None:
    """Programs read them."""
    assert cell(value).plain == shown


def drawn(what: RenderableType) -> list[str]:
    console = Console(width=80, file=io.StringIO(), record=True, legacy_windows=False)
    console.print(what)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_words_of_heads_are_whole_at_80_columns() -> None:
    """Whatever stands below them."""
    heads = (
        "group",
        "topic",
        "redelivered",
        "missed",
        "no offset",
        "not copied yet",
        "before the copy",
        "in flight",
    )
    row = ["a-group-of-consumers", "a-topic-with-a-long-name", 123456, 0, 0, 123, 0, 1]
    words = {word for line in drawn(table(heads, [row], empty="")) for word in line.split()}
    assert words >= {word for head in heads for word in head.split()}


def test_reasons_stand_below_each_once() -> None:
    """In a column of their own they would be ten characters wide and a dozen lines high for each topic."""
    reason = "the target is unreachable: 127.0.0.1:9876 refuses connections, and has for the last 30 seconds"
    topics = [{**TOPIC, "topic": f"orders-{i}", "state": "WAITING", "reason": reason} for i in range(9)]
    shown = drawn(lag_table({"route": {"status": {"topics": topics}}}))
    assert shown[0].split()[:3] == ["connector", "topic", "state"]
    assert [line.split()[1] for line in shown[1:10]] == [f"orders-{i}" for i in range(9)]
    assert " ".join(shown[10:]) == f"orders-0, orders-1, orders-2 and 6 more: {reason}"


def test_topics_of_the_system_are_shown_where_something_waits() -> None:
    """By what people call them."""
    quiet = {**TOPIC, "topic": "SCHEDULE_TOPIC_XXXX", "state": "RUNNING", "lag_messages": 0, "reason": ""}
    waits = {**TOPIC, "topic": "rmq_sys_wheel_timer", "state": "RUNNING", "lag_messages": 7, "reason": ""}
    shown = drawn(lag_table({"route": {"status": {"topics": [TOPIC, quiet, waits]}}}))
    assert len(shown) == 3
    assert shown[2].startswith("route      timer messages")
    assert topic_name("SCHEDULE_TOPIC_XXXX", quiet=False) == "delayed messages"
    assert topic_name("orders", quiet=True) == "orders"
