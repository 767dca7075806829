"""Who may send a letter, and what it is then."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.admin import dead_letter_resend
from replicator.admin.dead_letter_resend import BeingSent, Resend, first_to_send, resent_properties
from replicator.admin.dead_letters import Step, letter_of
from replicator.errors import RequestTimeout
from replicator.protocol.properties import decode
from replicator.routing import provenance
from tests.admin.test_dead_letters import LETTER, message

OWN = Step(20, "begun", 4, 50, 100_000)


def begun(offset: int, seconds_ago: float) -> Step:
    return Step(offset, "begun", 4, 40, int(OWN.stored - seconds_ago * 1000))


def test_the_first_one_sends() -> None:
    assert first_to_send([], OWN) is None


def test_the_second_one_does_not() -> None:
    with pytest.raises(BeingSent):
        first_to_send([begun(10, 1)], OWN)


def test_after_one_that_has_not_sent_it_the_next_one_does() -> None:
    assert first_to_send([begun(10, 1), Step(11, "not-sent", 4, 10, OWN.stored)], OWN) is None


def test_where_nobody_knows_how_it_ended_the_queue_is_searched_from_the_first_attempt() -> None:
    first = begun(10, 60)
    assert first_to_send([first, begun(12, 45)], OWN) == first


def test_of_two_that_find_such_an_attempt_one_sends() -> None:
    with pytest.raises(BeingSent):
        first_to_send([begun(10, 60), begun(19, 0)], OWN)


def test_it_has_its_own_properties_its_birthplace_and_where_it_came_from() -> None:
    """And is no copy of this route, since it stands behind later ones."""
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
