"""The judge of a topic that was deleted and created again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.soak.brief import wrong
from tests.support.history import Message, Place


def _sent(*keys: str, queue: int = 0) -> list[Message]:
    return [Message(Place("a", queue, at), "", keys=key) for at, key in enumerate(keys)]


def _copied(*keys: str, queue: int = 0) -> list[Message]:
    """Behind two messages of an earlier topic."""
    old = [Message(Place("b", queue, at), "", keys=f"old{at}", origin=Place("a", queue, at)) for at in range(2)]
    return old + [
        Message(Place("b", queue, at + 2), "", keys=key, origin=Place("a", queue, at))
        for at, key in enumerate(keys)
    ]


def test_what_the_topic_has_now_is_copied_in_its_order() -> None:
    assert wrong(_sent("k1", "k2"), _copied("k1", "k2")) == []
    assert wrong([], _copied()) == []


@pytest.mark.parametrize("copied", [["k1"], ["k2", "k1"], ["k1", "k2", "k2"], []])
def test_what_is_left_out_twice_or_out_of_order_is_found(copied: Sequence[str]) -> None:
    assert wrong(_sent("k1", "k2"), _copied(*copied))


def test_what_is_in_the_copy_of_another_queue_is_found() -> None:
    assert wrong(_sent("k1", "k2"), _copied("k1") + _copied("k2", queue=1)[2:])


def test_messages_of_earlier_topics_are_there_once() -> None:
    assert wrong(_sent("k1"), _copied("old1", "k1"))
