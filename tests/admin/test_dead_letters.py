"""What stands in the queue of dead letters: letters, steps of resends, and what others have written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.admin import dead_letters as module
from replicator.admin.dead_letters import STEP, Latest, Step, dead_letters, last_steps, letter_of, step_of
from replicator.protocol.message import StoredMessage
from replicator.protocol.properties import encode
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings

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


@pytest.mark.parametrize(
    "said", ["begun 4", "begun x 1", "ended 4 1", "", "done 4 ²", pytest.param(f"done 4 {'9' * 5000}", id="long")]
)
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


class Kept:
    """The dead letters' queue of the one broker, which route `route` writes to beside another one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.messages: list[StoredMessage] = []
        self.read = 0
        self.body = bytes(4)
        for fake in (self.min_offset, self.max_offset, self.read_range):
            monkeypatch.setattr(module, fake.__name__, fake)

    def letter(self, *, cluster: str = "east") -> int:
        """Adds one; its offset."""
        return self._add({**LETTER, "__RPL_SOURCE": f"{cluster}/east-a/1/17/1000"})

    def resend(self, letter: int) -> None:
        """Adds the two steps of it."""
        self._add({STEP: f"begun {letter} 0"})
        self._add({STEP: f"done {letter} 7"})

    def _add(self, properties: Mapping[str, str]) -> int:
        offset = len(self.messages)
        self.messages.append(StoredMessage(offset, 0, 0, 1, offset, 0, 0, self.body, encode(properties)))
        return offset

    async def min_offset(self, *_: object) -> int:
        return 0

    async def max_offset(self, *_: object) -> int:
        return len(self.messages)

    async def read_range(
        self, _reader: object, _topic: str, _queue: int, start: int, stop: int, **_: object
    ) -> AsyncIterator[StoredMessage]:
        for message in self.messages[start:stop]:
            self.read += 1
            yield message

    async def latest(self) -> Latest:
        store = SimpleNamespace(
            queue_maps=lambda _: {"orders": {Queue("east-a", 1): Queue("west-a", 0)}}, mapped=lambda *_: True
        )
        cluster = SimpleNamespace(reader=lambda _: None)
        worker: Any = SimpleNamespace(
            store=store,
            identity=SimpleNamespace(source="east"),
            context=SimpleNamespace(target=SimpleNamespace(cluster=cluster)),
        )
        return await dead_letters(worker, "route", RouteSettings())


async def test_letters_that_nobody_has_sent_again_stay_in_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the steps of those that somebody has, and the letters of other routes."""
    kept = Kept(monkeypatch)
    offsets = [kept.letter() for _ in range(80)]
    for _ in range(300):
        kept.letter(cluster="south")
    for offset in offsets[20:]:
        kept.resend(offset)
    letters, older = await kept.latest()
    assert [letter.offset for letter, _ in letters] == offsets[::-1]
    assert [step.kind if step else "" for _, step in letters] == ["done"] * 60 + [""] * 20
    assert not older


async def test_what_is_older_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is read than it takes to show the latest hundred, and never all of a long queue."""
    kept = Kept(monkeypatch)
    offsets = [kept.letter() for _ in range(500)]
    letters, older = await kept.latest()
    assert [letter.offset for letter, _ in letters] == offsets[:-101:-1]
    assert (older, kept.read) == (True, 128)
    for _ in range(11_000):
        kept.letter(cluster="south")
    kept.read = 0
    assert await kept.latest() == Latest([], older=True)
    assert 10_000 <= kept.read < 10_200


async def test_large_letters_end_the_reading_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand of them may have gigabytes."""
    monkeypatch.setattr(module, "_BYTES", 100_000)
    kept = Kept(monkeypatch)
    kept.body = bytes(1000)
    for _ in range(1000):
        kept.letter(cluster="south")
    assert await kept.latest() == Latest([], older=True)
    assert kept.read == 128
