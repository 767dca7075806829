"""Who may send a letter, and what it is then."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from replicator.admin import dead_letter_resend
from replicator.admin.dead_letter_resend import BeingSent, Resend, first_to_send, resent_properties
from replicator.admin.dead_letters import Kind, Step, letter_of
from replicator.errors import RequestTimeout
from replicator.protocol.properties import decode
from replicator.routing import provenance
from replicator.routing.queue_map import Queue
from tests.admin.test_dead_letters import LETTER, message

OWN = Step(20, "begun", 4, 50, 100_000)


def begun(offset: int, seconds_ago: float) -> Step:
    return Step(offset, "begun", 4, 40, int(OWN.stored - seconds_ago * 1000))


def test_the_first_one_sends() -> None:
    assert first_to_send([], OWN) == []


def test_the_second_one_does_not() -> None:
    with pytest.raises(BeingSent):
        first_to_send([begun(10, 1)], OWN)


def test_after_one_that_has_not_sent_it_the_next_one_does() -> None:
    assert first_to_send([begun(10, 1), Step(11, "not-sent", 4, 10, OWN.stored)], OWN) == []


def test_where_nobody_knows_how_it_ended_the_queue_is_searched() -> None:
    earlier = [begun(10, 60), begun(12, 45)]
    assert first_to_send(earlier, OWN) == earlier


def test_of_two_that_find_such_an_attempt_one_sends() -> None:
    with pytest.raises(BeingSent):
        first_to_send([begun(10, 60), begun(19, 0)], OWN)


def test_it_has_its_own_properties_its_birthplace_and_where_it_came_from() -> None:
    """And is not a copy of this route, since it stands behind later ones."""
    stored = message({**LETTER, "KEYS": "k", "CLUSTER": "west", "UNIQ_KEY": "u"})
    letter = letter_of("west-a", stored)
    assert letter is not None
    raw = resent_properties(stored, letter)
    assert decode(raw) == {
        "__RPL_ORIGIN": "north",
        "__RPL_RESENT": "east/east-a/1/17/1000",
        "KEYS": "k",
        "UNIQ_KEY": "u",
    }
    assert provenance.read(raw) is None
    assert provenance.birthplace(raw, b"west") == b"north"


async def test_a_send_over_a_slow_line_ends_before_others_may_send_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up: list[bool] = []

    async def send(*_: object) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            given_up.append(True)
            raise

    monkeypatch.setattr(dead_letter_resend, "send_batch", send)
    stored = message({**LETTER, "KEYS": "k"})
    letter = letter_of("west-a", stored)
    assert letter is not None
    cluster = SimpleNamespace(writer=lambda _: SimpleNamespace(address="west-a:10909"))
    worker = SimpleNamespace(context=SimpleNamespace(target=SimpleNamespace(cluster=cluster)))
    resend = Resend(cast("Any", worker), cast("Any", None), "west-a", 4)
    place = {"topic": "orders", "broker": "west-a", "queue": 1}
    with pytest.raises(RequestTimeout, match="west-a:10909"):
        await resend._send(letter, stored, place, seconds=0.05)
    assert given_up


class Resending(Resend):
    """Letter 4 of `west-a`; an attempt of a minute ago has died. Of the queue each message takes a second to read.

    `steps` are those of the letter, `stored` when each message of its queue was stored, and `read` the offsets that
    were searched.
    """

    steps: list[Step]
    stored: list[int]
    read: list[int]
    time: list[float]

    async def _begun(self, _letter: object, end: int) -> tuple[Step, list[Step]]:
        earlier = [*self.steps]
        await self._step("begun", 4, end)
        return self.steps[-1], earlier

    async def _step(self, kind: Kind, letter: int, number: int) -> int:
        offset = 20 + len(self.steps)
        self.steps.append(Step(offset, kind, letter, number, OWN.stored))
        return offset

    async def _send(self, *_: object, **__: object) -> int:
        return len(self.stored)

    async def end(self, *_: object) -> int:
        return len(self.stored)

    async def range(self, _reader: Any, _topic: str, _queue: int, start: int, stop: int = 999, **_: Any) -> Any:
        for offset in range(start, min(stop, len(self.stored))):
            self.time[0] += 1.0
            self.read.append(offset)
            yield msgspec.structs.replace(message({}, offset), store_timestamp=self.stored[offset])


@pytest.fixture
def resending(monkeypatch: pytest.MonkeyPatch) -> Resending:
    async def letter(*_: object) -> Any:
        return letter_of("west-a", message(LETTER))

    cluster = SimpleNamespace(reader=lambda _: None)
    context = SimpleNamespace(target=SimpleNamespace(cluster=cluster))
    worker: Any = SimpleNamespace(context=context, store=SimpleNamespace(target_topic=lambda *_: "orders"))
    resend = Resending(worker, cast("Any", SimpleNamespace(name="route")), "west-a", 4)
    for name, value in (("steps", [begun(10, 60)]), ("stored", []), ("read", []), ("time", [0.0])):
        object.__setattr__(resend, name, value)
    for name, fake in (("max_offset", resend.end), ("read_range", resend.range), ("now", lambda: resend.time[0])):
        monkeypatch.setattr(dead_letter_resend, name, fake)
    for name, done in (("_letter", letter), ("_original", letter), ("_record", lambda *_: None)):
        monkeypatch.setattr(Resend, name, done)
    monkeypatch.setattr(Resend, "_queue", lambda *_: Queue("west-a", 1))
    return resend


async def test_what_was_searched_in_vain_is_not_searched_again(resending: Resending) -> None:
    """However long the queue has become since: the next one who asks sends it at once."""
    resending.stored.extend([1000] * 100)
    resending.steps[:] = [begun(10, 60)._replace(number=0), begun(11, 45)._replace(number=50)]
    with pytest.raises(BeingSent, match="too slowly"):
        await resending.carried_out()
    assert len(resending.read) == 150
    assert await resending.carried_out() == {
        "topic": "orders",
        "broker": "west-a",
        "queue": 1,
        "offset": 100,
        "already": False,
    }
    assert len(resending.read) == 150


async def test_an_attempt_is_searched_for_where_it_may_be(resending: Resending) -> None:
    """It has stored nothing minutes after it began, by the clock of the broker that has the queue."""
    resending.stored.extend([1000, 2000, 3_600_000, 3_600_000, 3_600_000])
    resending.steps[:] = [begun(10, 60)._replace(number=0)]
    assert not (await resending.carried_out())["already"]
    assert resending.read == [0, 1, 2]
