"""The age of what is missing, where there was no time to read it: the oldest message that the source still has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.admin import topic_lag
from replicator.admin.topic_lag import topic_lags
from replicator.client.pull import Pulled
from replicator.errors import ProtocolError
from replicator.metadata.offsets import CopiedQueue
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage
from replicator.routing.offset_map import OffsetMap
from replicator.routing.options import Identity
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings

#: The queue was copied up to here, and ends there.
COPIED, END = 10, 30
#: When each message was stored, in milliseconds.
STORED = 5_000


class _Slow:
    """What reads the messages to count them: there is no time for it."""

    position = COPIED

    def __init__(self, *_: object, **__: object) -> None: ...

    async def chunks(self) -> AsyncIterator[list[StoredMessage]]:
        await asyncio.Event().wait()
        yield []


async def _lag(
    monkeypatch: pytest.MonkeyPatch, *, oldest: int | None, ends: int | None = END, master: bool = True
) -> dict[str, Any]:
    """Of the one topic, whose source has its messages from `oldest` on; None: it gives none."""

    async def end(*_: object) -> int:
        if ends is None:
            raise ProtocolError("answer with code 0: field offset is None, not a number")
        return ends

    async def pull(_reader: object, _topic: str, _queue: int, offset: int, **_: object) -> Pulled:
        if oldest is None:
            return Pulled(Response.PULL_RETRY_IMMEDIATELY, "", [], offset, 0, END, 0)
        if offset < oldest:
            return Pulled(Response.PULL_OFFSET_MOVED, "", [], oldest, oldest, END, 0)
        message = StoredMessage(offset, 0, 0, 0, STORED, 0, 0, bytes(4), b"")
        return Pulled(Response.SUCCESS, "", [message], offset + 1, oldest, END, 0)

    for name, fake in (("max_offset", end), ("pull", pull), ("RangeReader", _Slow), ("_COUNTING", 0.01)):
        monkeypatch.setattr(topic_lag, name, fake)
    monkeypatch.setattr("time.time", lambda: STORED / 1000 + 90)
    source, target = Queue("a", 0), Queue("x", 0)
    copied = CopiedQueue(source, target, "T", position=COPIED, start=0, offsets=OffsetMap(), floor=0)
    plan = TopicPlan(topic="T", target_topic="T", queue_map={source: target})
    route: Any = SimpleNamespace(
        name="route",
        problems={},
        settings=RouteSettings(),
        topics=SimpleNamespace(plans=[plan], parked={}),
        parking=SimpleNamespace(options=lambda options: options),
        sync=SimpleNamespace(copied=SimpleNamespace(snapshot=lambda: SimpleNamespace(queue=lambda *_: copied))),
    )
    reader = SimpleNamespace(address="b:1", refuse_pause=lambda: None)
    context: Any = SimpleNamespace(
        source=SimpleNamespace(cluster=SimpleNamespace(reader=lambda _: reader, is_master=lambda *_: master)),
        store=SimpleNamespace(begins_late=lambda *_: False),
        identity=Identity("s", "t"),
        settle_timeout=1.0,
    )
    (found,) = await topic_lags(route, context)
    return found


@pytest.mark.parametrize(("oldest", "seconds", "known"), [(5, 90.0, True), (20, 90.0, True), (None, 0.0, False)])
async def test_the_oldest_message_that_there_is(
    monkeypatch: pytest.MonkeyPatch, oldest: int | None, seconds: float, *, known: bool
) -> None:
    """Also where the source has deleted what comes after the last copy; else its age is said to be unknown."""
    found = await _lag(monkeypatch, oldest=oldest)
    assert (found["messages"], found["counted"]) == (END - COPIED, False)
    assert (found["seconds"], found["seconds_known"]) == (seconds, known)


async def test_a_source_that_ends_before_what_was_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that was restored from a snapshot, while the route stands: what it has taken since is not known."""
    found = await _lag(monkeypatch, oldest=0, ends=COPIED - 4)
    assert "it shows offset 6, and was copied to 10: the source has lost messages" in found["problem"]
    assert [each["position"] for each in found["unknown_queues"]] == [COPIED]
    found = await _lag(monkeypatch, oldest=0, ends=COPIED)
    assert (found["messages"], found["problem"]) == (0, "")


async def test_a_source_whose_answer_makes_no_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told of its queue; what else is asked for goes on."""
    found = await _lag(monkeypatch, oldest=0, ends=None)
    assert "field offset is None, not a number" in found["problem"]
    assert len(found["unknown_queues"]) == 1


async def test_a_slave_does_not_say_what_its_master_has(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await _lag(monkeypatch, oldest=0, ends=COPIED, master=False)
    assert "it is a slave, and the master may have more" in found["problem"]
    assert len(found["unknown_queues"]) == 1
