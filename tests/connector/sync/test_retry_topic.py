"""What is put into a retry topic of the target is there once, whenever a failover is killed and repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.groups import GroupTable
from replicator.client.offsets import OffsetTable
from replicator.client.send import Stored
from replicator.connector.sync import retry_topic as module
from replicator.connector.sync.retry_topic import RetryTopic, Unsuitable
from replicator.errors import ReplicatorError, RequestTimeout
from replicator.metadata.offsets import GroupQueue
from replicator.metadata.pop_checkpoints import Held
from replicator.metadata.redelivery_plan import held_copies
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing.options import Identity
from replicator.routing.seal import Sealer
from tests.metadata.test_offsets import place

NAME = "%RETRY%G_T"
NO_GROUPS = GroupTable({}, {}, (), modes={})


class Target:
    """Broker `x`: 10 copies in queue 3 of T, from source offset 0 on, and a retry topic once it is made.

    `answers` are what sends of it end with, after the message was stored or, for False, before.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.copies = [copy(i) for i in range(10)]
        self.retries: list[StoredMessage] = []
        self.made: list[object] = []
        self.topics: dict[str, dict[str, Any]] = {"x": {}}
        self.answers: list[tuple[bool, ReplicatorError | None]] = []
        self.sealer: Sealer | None = None
        self.clock = 10_000
        for name in ("message_at", "read_range", "offset_at", "send_single"):
            monkeypatch.setattr(module, name, getattr(self, name))
        for name in ("write_topic", "write_group", "commit_offset"):
            monkeypatch.setattr(module, name, self._making)

    def topic(self) -> RetryTopic:
        """As a worker that has just started sees it."""
        cluster = SimpleNamespace(master=lambda broker: broker, writer=lambda broker: broker)
        target = SimpleNamespace(cluster=cluster, topics=self.topics, refresh=self._nothing)
        barrier = SimpleNamespace(caught_up=self._nothing)
        identity = Identity("east", "west")
        context: Any = SimpleNamespace(
            target=target, barrier=barrier, identity=identity, sealer=self.sealer, unleased=cluster
        )
        return RetryTopic(context, "G", "x", NAME)

    async def fail_over(self, at: GroupQueue, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """An attempt."""
        topic = self.topic()
        await topic.read(min(held.popped for held in at.held))
        missing = await topic.missing(at, held_copies(at) or ())
        if missing:
            await topic.prepare(NO_GROUPS, OffsetTable({}, b""))
            await topic.put(missing, may_go_on)

    @property
    def put(self) -> Counter[bytes]:
        return Counter(each.content for each in self.retries)

    async def _nothing(self, *_: object) -> None: ...

    async def _making(self, _: object, *what: object) -> None:
        self.made.append(what)
        if hasattr(what[0], "read_queues"):
            self.topics["x"][NAME] = what[0]

    async def message_at(self, _: str, topic: str, queue_id: int, offset: int) -> StoredMessage | None:
        assert (topic, queue_id) == ("T", 3)
        return self.copies[offset] if offset < len(self.copies) else None

    async def offset_at(self, _: str, topic: str, queue_id: int, timestamp: int) -> int:
        assert (topic, queue_id) == (NAME, 0)
        return sum(each.store_timestamp < timestamp for each in self.retries)

    async def read_range(self, _: str, topic: str, queue_id: int, start: int) -> AsyncIterator[StoredMessage]:
        assert (topic, queue_id) == (NAME, 0)
        for each in self.retries[start:]:
            yield each

    async def send_single(self, _: str, fields: dict[str, str], body: bytes) -> Stored:
        is_stored, error = self.answers.pop(0) if self.answers else (True, None)
        if is_stored:
            self.store(int(fields["j"]), body, fields["i"].encode())
        if error is not None:
            raise error
        return Stored(0, len(self.retries) - 1)

    def store(self, times: int, body: bytes, raw: bytes) -> None:
        self.clock += 1
        at, size = len(self.retries), len(body).to_bytes(4)
        self.retries.append(StoredMessage(at, 0, 0, 0, self.clock, times, 0, size + body, raw))


def copy(offset: int, **more: str) -> StoredMessage:
    source = {"__RPL_ORIGIN": "east", "__RPL_SOURCE": f"east/a/0/{offset}/1000", "UNIQ_KEY": f"K{offset}"}
    body = b"%d" % offset
    return StoredMessage(
        offset, 0, 0, 0, 2000, 0, 0, len(body).to_bytes(4) + body, properties.encode(source | more)
    )


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    return Target(monkeypatch)


def holding(*offsets: int, there: int | None = 0) -> GroupQueue:
    at = place({i: i for i in range(10)}, min(offsets), there)
    held = tuple(Held(offset, 5000) for offset in offsets)
    return replace(at, in_flight=len(offsets), held=held, delivered=10)


async def test_each_message_is_put_once(target: Target) -> None:
    """With what a broker makes before the first one, so that the group begins at it."""
    await target.fail_over(holding(2, 5, 7))
    assert target.put == {b"2": 1, b"5": 1, b"7": 1}
    assert {each.reconsume_times for each in target.retries} == {1}
    group, topic, offset = target.made
    assert (group, offset) == (({"groupName": "G_T"},), ("G", NAME, 0, 0))
    assert (topic[0].read_queues, topic[0].write_queues, topic[0].perm) == (1, 1, 6)  # type: ignore[index]
    await target.fail_over(holding(2, 5, 7, there=10))
    assert len(target.retries) == 3


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("at", range(9))
async def test_an_attempt_that_ends_in_the_middle(target: Target, at: int, *, stored: bool) -> None:
    """Nobody knows whether the message that was under way is stored; whoever repeats it finds out."""
    target.answers = [(True, None)] * at + [(stored, RequestTimeout("x:1", 310, 10.0))]
    everything = holding(*range(9))
    with pytest.raises(ReplicatorError):
        await target.fail_over(everything)
    target.answers = []
    await target.fail_over(everything)
    assert target.put == dict.fromkeys((b"%d" % i for i in range(9)), 1)


async def test_a_route_that_runs_again_puts_nothing_more(target: Target) -> None:
    left = iter([True, True])
    with pytest.raises(ReplicatorError, match="stand still"):
        await target.fail_over(holding(*range(9)), lambda: next(left, False))
    assert len(target.retries) == 2
    await target.fail_over(holding(*range(9)))
    assert set(target.put.values()) == {1}


async def test_what_the_source_has_revived_and_the_route_has_copied(target: Target) -> None:
    """It is in the retry topic with a copy of its own; the other is put."""
    target.topics["x"][NAME] = SimpleNamespace(read_queues=1)
    source = {"__RPL_ORIGIN": "east", "__RPL_SOURCE": "east/a/0/0/6000", "__RPL_RETRIES": "1", "UNIQ_KEY": "K2"}
    target.store(1, b"2", properties.encode(source))
    await target.fail_over(holding(2, 5))
    assert target.put == {b"2": 1, b"5": 1}


async def test_a_group_that_has_read_on_gets_nothing_more(target: Target) -> None:
    """It began before what it holds, where an earlier failover could not put it elsewhere."""
    with pytest.raises(Unsuitable, match="read on"):
        await target.fail_over(holding(2, 5, there=9))
    assert target.retries == []


@pytest.mark.parametrize(
    ("at", "found", "why"),
    [
        (2, None, "no copy is at offset 2"),
        (2, copy(3), "of another message"),
        (5, copy(5, _SYS_MSG_PRIORITY_="1"), "cannot be put"),
    ],
)
async def test_what_cannot_be_put(target: Target, at: int, found: StoredMessage | None, why: str) -> None:
    if found is None:
        found = StoredMessage(2, 0, 0, 0, 2000, 0, 0, b"\x00\x00\x00\x01x", b"UNIQ_KEY\x01AB\x02")
    target.copies[at] = found
    with pytest.raises(Unsuitable, match=why):
        await target.fail_over(holding(2, 5))
    assert target.retries == []


async def test_with_a_secret_only_what_this_group_has_put_counts(target: Target) -> None:
    """Whoever may write the retry topic keeps nothing out of it."""
    target.topics["x"][NAME] = SimpleNamespace(read_queues=1)
    forged = {"__RPL_RELEASED": "east/pop/G/T/a/0/2/1000", "__RPL_RETRIES": "1", "UNIQ_KEY": "K2"}
    revived = {"__RPL_ORIGIN": "east", "__RPL_SOURCE": "east/a/0/0/6000", "__RPL_RETRIES": "1", "UNIQ_KEY": "K5"}
    target.store(1, b"forged", properties.encode(forged))
    target.store(1, b"forged", properties.encode(revived))
    target.sealer = Sealer("k" * 32, "west")
    for _ in range(2):
        await target.fail_over(holding(2, 5))
    assert target.put == {b"forged": 2, b"2": 1, b"5": 1}
