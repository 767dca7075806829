"""What a slave lacks, has otherwise, or does not answer, the master is asked for; nothing else tells them apart."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from replicator.client import history
from replicator.client.connection import Answer, Connection, OnAnswer
from replicator.client.endpoint import Endpoint
from replicator.client.history import HistoryConnection
from replicator.client.line_window import LineWindow
from replicator.client.pull import pull_fields, read
from replicator.errors import ClientError, Unreachable
from replicator.protocol.frame import Frame
from tests.support.stored import stored

EACH = 4
WHOLE = list(range(40))
#: More offsets than memory has room for.
FAR = 10**18


class Broker:
    """Has the messages of `offsets`; answers with those of the next four offsets that it has."""

    def __init__(self, *, offsets: list[int] | None = None, kind: bytes = b"", suggests: str = "0") -> None:
        self.offsets = WHOLE if offsets is None else offsets
        self.kind = kind
        self.suggests = suggests
        self.answer: Answer | None = None
        self.asked: list[int] = []
        self.address = "broker:1"
        self.line = LineWindow(lambda: 0.0)

    async def connection(self) -> Connection:
        return cast("Connection", self)

    async def invoke(self, code: int, fields: Mapping[str, str], *, timeout: float) -> Frame:
        answer = self._pulled(fields)
        if isinstance(answer, Frame):
            return answer
        raise answer

    def request(self, code: int, fields: Mapping[str, str], on_answer: OnAnswer, *, timeout: float) -> None:
        asyncio.get_running_loop().call_soon(on_answer, self._pulled(fields))

    def _pulled(self, fields: Mapping[str, str]) -> Answer:
        start = int(fields["queueOffset"])
        self.asked.append(start)
        if self.answer is not None:
            return self.answer
        end = start + min(EACH, int(fields["maxMsgNums"]))
        body = b"".join(stored(each, properties=self.kind) for each in self.offsets if start <= each < end)
        told = {"nextBeginOffset": end, "minOffset": self.offsets[0], "maxOffset": self.offsets[-1] + 1}
        told["suggestWhichBrokerId"] = int(self.suggests)
        return Frame(0 if body else 19, 1, 1, "", {name: str(value) for name, value in told.items()}, body)


async def _read(master: Broker, slave: Broker) -> None:
    """Reads all; asserts that all comes."""
    pulls = HistoryConnection(cast("Connection", master), cast("Endpoint", slave))
    found: list[int] = []
    while len(found) < len(WHOLE):
        coming = asyncio.get_running_loop().create_future()
        pulls.request(11, pull_fields("T", 0, len(found)), coming.set_result, timeout=1.0)
        pulled = read(await coming, "broker:1")
        found += [message.queue_offset for message in pulled.messages]
        assert pulled.next_offset == len(found)
        for _ in range(5):  # what the answer has led to
            await asyncio.sleep(0)
    assert found == WHOLE


async def test_the_slave_is_asked_once_the_master_wants_it() -> None:
    """And no more than that: the master is asked nothing then, except to wait for what comes."""
    master, slave = Broker(suggests="1"), Broker()
    await _read(master, slave)
    assert (master.asked, slave.asked) == ([0], [0, *range(EACH, len(WHOLE), EACH)])
    master, slave = Broker(), Broker()
    await _read(master, slave)
    assert slave.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        None,
        Unreachable("slave:1", "gone"),
        Frame(2, 1, 1, "busy", {}, b""),
        Frame(0, 1, 1, "", {}, b"odd"),
        Frame(21, 1, 1, "", {"nextBeginOffset": "50", "minOffset": "50", "maxOffset": "10"}, b""),
        Frame(0, 1, 1, "", {"nextBeginOffset": str(FAR), "minOffset": "0", "maxOffset": str(FAR)}, stored(12)),
    ],
)
async def test_a_slave_that_stops_serving(answer: Answer | None) -> None:
    """It lacks the last messages, is gone, refuses, or answers nonsense: the master gives the rest."""
    master, slave = Broker(suggests="1"), Broker(offsets=WHOLE[:18])
    if answer is not None:
        reached = 12
        ask = slave.request

        def request(code: int, fields: Mapping[str, str], on_answer: OnAnswer, *, timeout: float) -> None:
            slave.answer = answer if int(fields["queueOffset"]) >= reached else None
            ask(code, fields, on_answer, timeout=timeout)

        slave.request = request  # type: ignore[method-assign]
    await _read(master, slave)
    left = 12 if answer is not None else 16
    assert slave.asked == [0, *range(EACH, left + 1, EACH)]
    assert master.asked == [0, *range(left, len(WHOLE), EACH)]


@pytest.mark.parametrize(
    "slave",
    [
        Broker(offsets=WHOLE[1:]),
        Broker(kind=b"n\x01of a topic that was deleted\x02"),
    ],
    ids=["its retention has taken more", "it has other messages"],
)
async def test_a_slave_that_has_not_the_same(slave: Broker) -> None:
    """It is looked at once, and left alone for a while."""
    master = Broker(suggests="1")
    await _read(master, slave)
    assert (master.asked, slave.asked) == (list(range(0, len(WHOLE), EACH)), [0])


async def test_a_hole_in_what_the_slave_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master's messages come in its place; after its rest the slave is read again."""
    monkeypatch.setattr(history, "_REST", 0.0)
    master, slave = Broker(suggests="1"), Broker(offsets=[each for each in WHOLE if each != 9])
    await _read(master, slave)
    assert master.asked == [0, 8]
    assert slave.asked[-1] == len(WHOLE) - EACH


async def test_who_fails_on_what_the_slave_gave_is_not_given_it_again() -> None:
    """By the master: who has read it in part would read it twice. It is told that it failed, as by a connection."""
    master, slave = Broker(suggests="1"), Broker()
    pulls = HistoryConnection(cast("Connection", master), cast("Endpoint", slave))
    coming = asyncio.get_running_loop().create_future()
    pulls.request(11, pull_fields("T", 0, 0), coming.set_result, timeout=1.0)
    await coming
    await asyncio.sleep(0.01)

    def request(code: int, fields: Mapping[str, str], on_answer: OnAnswer, *, timeout: float) -> None:
        for answer in (slave._pulled(fields), ClientError(f"request {code} failed within {timeout:g} s")):
            on_answer(answer)

    slave.request = request  # type: ignore[method-assign]
    told: list[Answer] = []
    pulls.request(11, pull_fields("T", 0, 4), told.append, timeout=1.0)
    await asyncio.sleep(0.01)
    assert [type(answer) for answer in told] == [Frame, ClientError]
    assert master.asked == [0]


async def test_what_is_waited_for_is_the_masters() -> None:
    """A slave would get it later. What lies before the place that was compared is the master's too."""
    master, slave = Broker(suggests="1"), Broker()
    pulls = HistoryConnection(cast("Connection", master), cast("Endpoint", slave))
    for offset, suspend in ((8, 0.0), (12, 20.0), (4, 0.0), (12, 0.0)):
        coming = asyncio.get_running_loop().create_future()
        pulls.request(11, pull_fields("T", 0, offset, suspend=suspend), coming.set_result, timeout=1.0)
        await coming
        await asyncio.sleep(0.01)
    assert (master.asked, slave.asked) == ([8, 12, 4], [8, 12])
