"""The judge of what consumers that switch to the target get."""

from __future__ import annotations

from typing import Any

from tests.soak.consumers import ahead, unread
from tests.support.history import Message, Place

#: Two messages of an earlier time, then copies of the source's queue 0 from its message 0 on.
COPIES = {
    "t": [
        *(Message(Place("b", 1, at), "") for at in range(2)),
        *(Message(Place("b", 1, at + 2), "", origin=Place("a", 0, at)) for at in range(10)),
    ]
}


def _commits(offset: int) -> dict[str, Any]:
    return {"at": 1.0, "what": "commits", "topic": "t", "broker": "a", "queue": 0, "offset": offset}


def _resumes(offset: int) -> dict[str, Any]:
    return {"at": 2.0, "what": "resumes at", "topic": "t", "lane": ["b", 1], "offset": offset}


def test_a_group_is_where_it_was_at_the_source_or_behind() -> None:
    assert ahead([_resumes(0), _resumes(2), _commits(5), _resumes(7), _resumes(4)], COPIES) == []


def test_a_group_that_was_ahead_is_found_though_it_was_right_in_the_end() -> None:
    (found,) = ahead([_commits(5), _resumes(8), _commits(6), _resumes(8)], COPIES)
    assert "t at b/1@8" in found
    assert "a/0@5, when it had consumed up to 5 there" in found
    assert ahead([_resumes(3)], COPIES)


def test_each_message_is_got_once() -> None:
    places = [Place("a", 0, at) for at in range(3)]
    assert unread("t", places, places) == []
    assert "a/0@1 0 times" in unread("t", places, [places[0], places[2]])[0]
    assert "a/0@1 2 times" in unread("t", places, [*places, places[1]])[0]
