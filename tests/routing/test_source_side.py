"""Whether a source queue is still the one that was read, and where the copy goes on if it is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from replicator.errors import WrongBroker
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

    def __init__(self, *times: int, returned: int = 0, low: int = 0) -> None:
        self.times = times
        #: Messages before this offset have come from the target, and are not copied back.
        self.returned = returned
        self.low = low

    async def connection(self) -> Stored:
        return self

    async def ask(self, code: int, fields: Mapping[str, str]) -> Frame:
        offset = {Request.GET_MIN_OFFSET: 0, Request.GET_MAX_OFFSET: len(self.times)}[Request(code)]
        return Frame(0, 1, 1, "", {"offset": str(offset)}, b"")

    async def invoke(self, code: int, fields: Mapping[str, str], **_more: Any) -> Frame:
        assert code == Request.PULL_MESSAGE
        at = int(fields["queueOffset"])
        raw = b"__RPL_ORIGIN\x01t\x02__RPL_SOURCE\x01t/b/0/1/5\x02" if at < self.returned else b""
        is_there = self.low <= at < len(self.times)
        body = stored(at, time=self.times[at], properties=raw) if is_there else b""
        to = at + 1 if is_there else max(at, self.low)
        ends = {"nextBeginOffset": to, "minOffset": self.low, "maxOffset": len(self.times)}
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


@pytest.mark.parametrize(
    ("broker", "options", "skipped"),
    [
        (Stored(*range(500, 520)), {}, 3),
        (Stored(*range(500, 520), returned=3), {}, 3),
        (Stored(*range(500, 520), returned=6), {}, 6),
        (Stored(*range(500, 520), returned=10), {}, None),  # they came from the target
        (Stored(*range(500, 520), low=6), {}, 6),  # retention has deleted some of them
        (Stored(*range(500, 520), low=10), {}, None),
        (Stored(*range(600, 620)), {}, None),  # another queue by now
        (Stored(*range(500, 508)), {}, None),
        (Stored(*range(500, 520)), {"on_error": "skip"}, None),
        (Stored(*range(500, 520)), {"on_error": "dead-letter"}, None),
        (Stored(*range(500, 520)), {"transform": lambda _topic, _queue, message: message}, None),
    ],
)
async def test_what_belongs_before_a_copy(
    make_shared: Callable[..., Shared], broker: Stored, options: dict[str, Any], skipped: int | None
) -> None:
    """The copy is of offset 10, stored at 510, and what was copied before it ends at 2."""
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    source = BrokerSource(state, make_shared(broker=broker, **options), from_start=False, end=None)
    assert await source.left_out(3, CopyRecord(10, 510, 42)) == skipped
    assert state.counters.skipped == {}


async def test_a_queue_that_ends_too_early_behind_a_proxy_is_looked_at_again(
    make_shared: Callable[..., Shared], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A former master answers until the Proxy knows of the new one; what it lacks is not gone."""
    monkeypatch.setattr(source_side, "_PAUSE", 0.0)
    monkeypatch.setattr(source_side, "_STALE", 0.02)
    broker = Stored(510, 511, 512)
    source = source_of(make_shared, broker, seen=None)
    early, other = SourceReset(5, 0, 3), SourceReset(2, 0, 3)
    await source.confirm(early)
    cast("Any", source._shared.source).is_proxy = True
    await source.confirm(early)  # for as long as that lasts
    await source.confirm(other)  # other messages are seen
    broker.times = (510, 511, 512, 513, 514)
    with pytest.raises(WrongBroker, match="another replica of a had answered"):
        await source.confirm(early)
