"""A task's name can be taken apart and put together again without a difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.routing.queue_map import Queue
from replicator.routing.task_id import METADATA, TaskId

NAMES = st.text("ab-_%019", min_size=1)
BROKERS = st.text("ab-_./019", min_size=1)


@given(st.builds(TaskId, NAMES, NAMES, st.none() | st.builds(Queue, BROKERS, st.integers(0, 2**31))))
def test_parse_reads_what_is_printed(task: TaskId) -> None:
    assert TaskId.parse(str(task)) == task


@given(st.text("ab/0.", min_size=1).filter(lambda text: not text.endswith("/")))
def test_whatever_others_say_is_printed_as_it_came(text: str) -> None:
    assert str(TaskId.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("route/orders", TaskId("route", "orders")),
        ("route/orders/broker-a/3", TaskId("route", "orders", Queue("broker-a", 3))),
        ("route/orders/eu/broker-a/0", TaskId("route", "orders", Queue("eu/broker-a", 0))),
        ("route/.metadata", TaskId("route", METADATA)),
        ("files/in/2026", TaskId("files", "in/2026")),
        ("files/in/2026/07", TaskId("files", "in/2026/07")),
        ("files/in/2026/²", TaskId("files", "in/2026/²")),
        ("route", TaskId("route", "")),
        ("route//broker-a/3", TaskId("route", "/broker-a/3")),
    ],
)
def test_the_forms(text: str, task: TaskId) -> None:
    assert TaskId.parse(text) == task
    assert str(task) == text


def test_the_name_within_the_connector() -> None:
    assert TaskId.parse("route/orders/broker-a/3").task == "orders/broker-a/3"
    assert TaskId.parse("route/orders").task == "orders"


def test_the_whole_topic() -> None:
    assert str(TaskId.parse("route/orders/broker-a/3").whole) == "route/orders"
    assert TaskId.parse("route/orders").whole == TaskId("route", "orders")
