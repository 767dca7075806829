"""A worker whose source is away: what it does until the source answers, or it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from replicator.errors import Unreachable
from replicator.group.membership import MemberState
from replicator.worker import standby as module
from replicator.worker.agenda import Agenda
from replicator.worker.standby import Standby


class Source:
    """A cluster that answers when `answers` says so, or ends with what it raises."""

    def __init__(self, answers: Callable[[], bool]) -> None:
        self.topics: dict[str, Any] = {}
        self.answers = answers

    async def refresh(self) -> None:
        if not self.answers():
            raise Unreachable("ns:9876", "connection refused")
        self.topics = {"a": {}}


class Mirror:
    """The target's log: `written` counts how often all is published again."""

    def __init__(self, *, caught_up: bool = True, first: bool = True) -> None:
        self.caught_up = caught_up
        self.is_first = first
        self.written = self.flushed = self.refreshed = 0

    async def write_all(self) -> None:
        self.written += 1

    async def flush(self) -> None:
        self.flushed += 1

    async def refresh(self) -> None:
        self.refreshed += 1


class Setup:
    """A worker that stands by; `said` is what its heartbeats say."""

    def __init__(self, source: Source, mirror: Mirror) -> None:
        self.said: list[MemberState] = []
        self.agenda = Agenda()
        self.mirror = mirror
        self.stop = asyncio.Event()
        self.followed = 0
        cluster, target_log, heartbeats = cast("Any", source), cast("Any", mirror), cast("Any", self)
        self.standby = Standby(
            "no name server answers", cluster, cluster, target_log, heartbeats=heartbeats, agenda=self.agenda
        )

    async def observe(self, state: MemberState) -> None:
        self.said.append(state)

    def follow(self) -> None:
        self.followed += 1
        self.agenda.reconcile = False

    async def run(self) -> bool:
        return await asyncio.wait_for(self.standby.run(self.stop, self.follow), 5)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POLL_INTERVAL", 0.01)


async def test_it_ends_when_the_source_answers() -> None:
    """It says farewell, and why it waited until then."""
    answers = iter([False, False, True])
    setup = Setup(Source(lambda: next(answers)), Mirror())
    assert await setup.run()
    assert "connection refused" in setup.standby.reason
    assert setup.said == [MemberState.LEFT]
    assert setup.mirror.flushed == 1


async def test_it_ends_when_it_is_stopped() -> None:
    """At once, though the source does not answer."""
    setup = Setup(Source(lambda: False), Mirror())
    asyncio.get_running_loop().call_later(0.05, setup.stop.set)
    assert not await setup.run()
    assert setup.said == [MemberState.LEFT]


async def test_what_the_group_knows_is_shown_once_it_is_read() -> None:
    """Then it is written again, once: by then brokers may be about to delete it."""
    setup = Setup(Source(lambda: False), Mirror(caught_up=False, first=False))
    loop = asyncio.get_running_loop()
    loop.call_later(0.02, lambda: setattr(setup.mirror, "caught_up", True))
    loop.call_later(0.03, setup.agenda.wake)
    loop.call_later(0.1, setup.agenda.wake)
    loop.call_later(0.2, setup.stop.set)
    await setup.run()
    assert setup.mirror.written == 1
    assert setup.followed == 1
    await setup.standby._republish()
    assert setup.mirror.written == 1, "another worker has the least id, and does it"
    setup.mirror.is_first = True
    await setup.standby._republish()
    assert setup.mirror.written == 2


async def test_a_refresh_that_fails_is_tried_again() -> None:
    setup = Setup(Source(lambda: False), Mirror())
    await setup.standby._refresh()
    assert setup.mirror.refreshed == 0
    setup.standby._target = cast("Any", setup.mirror)
    await setup.standby._refresh()
    assert setup.mirror.refreshed == 2, "the target itself, and what is known there"


async def test_a_bug_in_the_search_is_not_silent() -> None:
    """Nobody would ever know why it goes on standing by."""

    def broken() -> bool:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await Setup(Source(broken), Mirror()).run()
