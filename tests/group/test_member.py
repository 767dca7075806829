"""What a worker learns from the messages of its group that come back, and from those of others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import pytest

from replicator.aio import clock
from replicator.group.assignment import sticky
from replicator.group.control_log import LogMessage
from replicator.group.coordinator import Coordinator
from replicator.group.inbox import Inbox
from replicator.group.member import Group
from replicator.group.signature import Signer
from replicator.routing.message_queue import MessageQueue
from replicator.state.record import Kind
from replicator.state.store import Store
from tests.support.members import member_of

#: Seconds that the clock of the broker is ahead of ours.
AHEAD = 30


class Echoes:
    """A log that gives each message back at once, stored by a clock that is ahead."""

    caught_up = True
    group: Group

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None:
        stored = int((time.time() + AHEAD) * 1000)
        self.group.on_said(LogMessage(MessageQueue(topic, "a", 0), body, stored))


@pytest.mark.parametrize(("coordination", "known"), [("source", ["a"]), ("target", [])])
async def test_only_the_clocks_of_source_brokers_are_known(
    tmp_path: Path, coordination: Literal["source", "target"], known: list[str]
) -> None:
    """A broker of the target may have the name of one of the source, and another clock."""
    coordinator = Coordinator("me", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5)
    group = member_of(coordinator, Store(tmp_path), signer=Signer(cluster=coordination))
    log = Echoes()
    log.group = group
    group.use(log)
    await group.beat({}, target_reachable=True)
    assert group.joined.is_set()
    assert list(group.skews) == known
    assert all(skew == pytest.approx(AHEAD, abs=1) for skew in group.skews.values())


class Topic:
    """The system topics of one broker: all members read all of it, and those that come later what was there."""

    caught_up = True

    def __init__(self) -> None:
        self.messages: list[LogMessage] = []
        self.readers: list[Group] = []

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None:
        stored = self.messages[-1].stored + 1 if self.messages else int(time.time() * 1000)
        self.messages.append(LogMessage(MessageQueue(topic, "a", 0), body, stored))
        for each in self.readers:
            each.on_said(self.messages[-1])

    async def member(self, name: str, store: Store, secret: str, *, accepts: bool = False) -> Group:
        """A worker that has just started."""
        coordinator = Coordinator(name, strategy=sticky, timeout=5.0, lease=3.5, delay=0.5)
        group = member_of(coordinator, store, signer=Signer(secret, accepts_unsigned=accepts))
        group.use(self)
        for message in self.messages:
            group.on_said(message)
        self.readers.append(group)
        await group.beat({}, target_reachable=True)
        assert group.joined.is_set()
        return group


async def copies(group: Group) -> None:
    """What it says when it has copied something."""
    group.store.put(Kind.POSITION, "route/orders/a/0", {"position": 7, "start": 0})
    assert await group.publish()


async def test_of_two_secrets_the_one_that_comes_later_gives_way(tmp_path: Path) -> None:
    """Also when it comes again, and with positions in its state file that it has from the others."""
    topic = Topic()
    first = await topic.member("one", Store(tmp_path / "one"), "s" * 32)
    assert not first.is_split, "it is alone"
    await copies(first)
    store = Store(tmp_path / "two")
    store.put(Kind.POSITION, "route/orders/a/0", {"position": 7, "start": 0})
    for name in ("two", "two, later"):
        later = await topic.member(name, store, "t" * 32)
        await first.beat({}, target_reachable=True)
        assert (first.is_split, later.is_split) == (False, True)
        assert await later.publish()
        await later.publish_all()
        topic.readers.remove(later)
    again = await topic.member("one, later", Store(tmp_path / "new"), "s" * 32)
    assert not again.is_split, "its secret was there before"


async def test_who_was_there_before_it_began_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All workers are stopped, and started with another secret: what stands there from before is soon over."""
    topic = Topic()
    first = await topic.member("one", Store(tmp_path / "one"), "s" * 32)
    await copies(first)
    later = await topic.member("two", Store(tmp_path / "two"), "t" * 32)
    assert later.is_split
    await copies(later)
    assert later.is_split, "that is not told yet"
    read = clock.now()
    monkeypatch.setattr("replicator.group.inbox.now", lambda: read + 100.0)
    assert not later.is_split
    assert await later.publish()
    monkeypatch.setattr("replicator.group.inbox.now", lambda: read)
    await first.beat({}, target_reachable=True)
    assert not later.is_split, "now it has copied, too"


async def test_who_gives_way_does_so_until_it_is_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    first = await topic.member("one", Store(tmp_path / "one"), "s" * 32)
    later = await topic.member("two", Store(tmp_path / "two"), "t" * 32)
    await first.beat({}, target_reachable=True)
    assert later.is_split
    await copies(later)
    assert later.is_split, "that is not told"
    monkeypatch.setattr(Inbox, "hears_other_secret", False)
    assert later.is_split, "how far the others have come is not known: it is restarted first"


async def test_forged_messages_stop_no_group_that_copies(tmp_path: Path) -> None:
    """Nor one that begins again while they come; but who accepts unsigned messages copies nothing meanwhile."""
    topic = Topic()
    group = await topic.member("one", Store(tmp_path / "one"), "s" * 32)
    await copies(group)
    await topic.member("evil", Store(tmp_path / "evil"), "e" * 32)
    assert group.inbox.hears_other_secret
    assert not group.is_split
    assert not (await topic.member("later", Store(tmp_path / "later"), "s" * 32)).is_split
    accepting = await topic.member("two", Store(tmp_path / "two"), "s" * 32, accepts=True)
    await topic.member("evil, later", Store(tmp_path / "evil later"), "e" * 32)
    assert accepting.is_split
