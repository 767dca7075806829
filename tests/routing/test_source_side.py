"""Whether a source queue is still the one that was read, and where the copy goes on if it is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from replicator.routing import source_side
from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel
from replicator.routing.faults import SourceReset
from replicator.routing.queue_map import Queue
from replicator.routing.queue_progress import Seen
from replicator.routing.recovery import CopyRecord
from replicator.routing.shared import Shared
from replicator.routing.source_side import BrokerSource
from replicator.routing.state import QueueState
from tests.support.stored import stored


class Stored:
    """A queue whose messages were stored at these times."""

    address = "source:10911"

    def __init__(self, *times: int) -> None:
        self.times = times

    async def connection(self) -> Stored:
        return self

    async def ask(self, code: int, fields: Mapping[str, str]) -> Frame:
        offset = {Request.GET_MIN_OFFSET: 0, Request.GET_MAX_OFFSET: len(self.times)}[Request(code)]
        return Frame(0, 1, 1, "", {"offset": str(offset)}, b"")

    async def invoke(self, code: int, fields: Mapping[str, str], **_more: Any) -> Frame:
        assert code == Request.PULL_MESSAGE
        at = int(fields["queueOffset"])
        body = stored(at, time=self.times[at]) if at < len(self.times) else b""
        ends = {"nextBeginOffset": at + bool(body), "minOffset": 0, "maxOffset": len(self.times)}
        code = Response.SUCCESS if body else Response.PULL_OFFSET_MOVED
        return Frame(code, 1, 1, "", {name: str(value) for name, value in ends.items()}, body)


def source_of(make_shared: Callable[..., Shared], broker: Stored, *, seen: Seen | None) -> BrokerSource:
    """A queue of which offsets 0 and 1 were copied, stored at 510 and 511 ms, and 2 to 4 were left out."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.progress.offsets.add(0, 70, 2)
    state.progress.position, state.progress.store_timestamp, state.progress.seen = 5, 511, seen
    shared = make_shared(broker=broker)
    shared.source.is_master = lambda *_: True  # type: ignore[method-assign]
    return BrokerSource(state, shared, from_start=False, end=None)


async def test_messages_that_were_left_out_are_compared_too(make_shared: Callable[..., Shared]) -> None:
    """The last copy is the same in both, and only what was left out after it is not."""
    seen = Seen(4, 514)
    await source_of(make_shared, Stored(510, 511, 512, 513, 514, 515), seen=seen).check()
    await source_of(make_shared, Stored(510, 511, 512), seen=seen).check()  # pulling shows it
    with pytest.raises(SourceReset, match="other messages than those copied before the position 5"):
        await source_of(make_shared, Stored(510, 511, 512, 999, 999, 999), seen=seen).check()


async def test_it_is_compared_again_after_a_while(
    make_shared: Callable[..., Shared], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that is away for an hour leaves time for a topic to be recreated, over the same connection."""
    time = [0.0]
    monkeypatch.setattr(source_side, "now", lambda: time[0])
    broker = Stored(510, 511, 512, 513, 514, 515)
    source = source_of(make_shared, broker, seen=Seen(4, 514))
    await source.check()
    broker.times = (999,) * 6
    await source.check()  # too soon to be another queue
    time[0] += 3600
    with pytest.raises(SourceReset):
        await source.check()


async def test_what_reads_it_knows_when_it_was_compared(
    make_shared: Callable[..., Shared], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that takes nothing has the copy begin again and again, with no look at the source in between."""
    time = [100.0]
    monkeypatch.setattr(source_side, "now", lambda: time[0])
    source = source_of(make_shared, Stored(510, 511, 512, 513, 514, 515), seen=Seen(4, 514))
    await source.check()
    time[0] += 5.0
    reader: Any = await source.open(Channel(MemoryBudget(1024)), 5)
    assert reader._look_back._sure_at == 100.0


@pytest.mark.parametrize("clock", [100, 900])
async def test_it_goes_on_where_the_histories_part(make_shared: Callable[..., Shared], clock: int) -> None:
    """Whatever the clock of the replica that took over says."""
    copied = {70: CopyRecord(0, 510, 70), 71: CopyRecord(1, 511, 71)}

    async def copy_at(target: int) -> CopyRecord | None:
        return copied.get(target)

    times = 510, *(clock + i for i in range(6))
    source = source_of(make_shared, Stored(*times), seen=None)
    with pytest.raises(SourceReset) as reset:
        await source.check()
    assert await source.after_reset(reset.value, copy_at) == 1
    copied.clear()  # the target has deleted them: only the clock is left
    assert await source.after_reset(reset.value, copy_at) == (7 if clock < 510 else 1)
