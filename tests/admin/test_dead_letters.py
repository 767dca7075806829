"""What stands in the queue of dead letters: letters, steps of resends, and what others have written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from replicator.admin.dead_letters import STEP, Step, last_steps, letter_of, step_of
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import encode

LETTER = {
    "__RPL_ORIGIN": "north",
    "__RPL_SOURCE": "east/east-a/1/17/1000",
    "__RPL_TOPIC": "orders",
    "__RPL_REASON": "too large",
    "__RPL_SIZE": "5000",
    "__RPL_OMITTED": "body",
}


def message(properties: Mapping[str, str], offset: int = 4) -> StoredMessage:
    return StoredMessage(offset, 0, 0, 1, 2000, 0, 0, bytes(4), encode(properties))


def test_a_letter_is_read() -> None:
    letter = letter_of("west-a", message({**LETTER, "KEYS": "k"}))
    assert letter is not None
    assert (letter.broker, letter.offset, letter.topic, letter.size) == ("west-a", 4, "orders", 5000)
    assert (letter.reason, letter.omitted, letter.stored) == ("too large", "body", 2000)
    assert (letter.source.origin, letter.source.broker, letter.source.offset) == ("north", "east-a", 17)


@pytest.mark.parametrize("missing", ["__RPL_SOURCE", "__RPL_TOPIC", "__RPL_SIZE"])
def test_what_is_no_letter_is_none(missing: str) -> None:
    assert letter_of("west-a", message({name: LETTER[name] for name in LETTER if name != missing})) is None


def test_a_step_is_read() -> None:
    assert step_of(message({STEP: "begun 4 120"}, 9)) == Step(9, "begun", 4, 120, 2000)


@pytest.mark.parametrize("said", ["begun 4", "begun x 1", "ended 4 1", "", "done 4 ²"])
def test_what_is_no_step_is_none(said: str) -> None:
    assert step_of(message({STEP: said})) is None
    assert step_of(message(LETTER)) is None


def test_what_is_done_stays_done() -> None:
    """A step that came too late says nothing of it."""
    steps = [Step(5, "begun", 4, 0, 1), Step(6, "done", 4, 9, 2), Step(7, "begun", 4, 0, 3)]
    assert last_steps([*steps, Step(8, "begun", 1, 0, 4)]) == {4: steps[1], 1: Step(8, "begun", 1, 0, 4)}


def test_an_attempt_that_may_have_sent_it_is_not_hidden_by_one_that_has_not() -> None:
    first, second, ended = Step(5, "begun", 4, 0, 1), Step(6, "begun", 4, 0, 2), Step(7, "not-sent", 4, 6, 3)
    assert last_steps([first, second, ended]) == {4: first}
    assert last_steps([second, ended]) == {4: ended}
