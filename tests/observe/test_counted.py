"""Numbers of things, in words."""

from __future__ import annotations

import pytest

from replicator.observe.counted import counted


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (0, "message", "0 messages"),
        (1, "message", "1 message"),
        (4702, "message", "4,702 messages"),
        (1, "queue is", "1 queue is"),
        (2, "queue is", "2 queues are"),
    ],
)
def test_one_is_singular(number: int, noun: str, said: str) -> None:
    assert counted(number, noun) == said
