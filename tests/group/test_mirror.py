"""The mirror at the target: what is noted gets there, what is read there is believed, and tasks wait for it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from replicator.errors import BrokerRefused, StartupError, Unreachable
from replicator.group import mirror as under_test
from replicator.group.control_log import LogMessage
from replicator.group.membership import MemberState
from replicator.group.other_log import observers_of
from replicator.group.signature import Signer
from replicator.group.wire import Author, read_message, write_records
from replicator.routing.message_queue import MessageQueue
from replicator.state.record import Kind, Record, Version
from tests.group.mirror_setup import CLUSTERS, CONNECTOR, MIRROR, FakeLog, Setup, opened, records
from tests.support.worker import until


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Setup]:
    return lambda *how, **more: Setup(tmp_path / "store", *how, **more)


async def test_what_is_noted_is_written_as_it_is_then(make: Callable[..., Setup]) -> None:
    """Of a key that changed twice the last value, and no assignment: leases are held on another log."""
    setup = await opened(make())
    for value in ("RUNNING", "STOPPED"):
        setup.mirror.note([setup.store.state.put(Kind.CONNECTOR, "route", {**CONNECTOR, "state": value})])
    setup.mirror.note([setup.store.state.put_version(Kind.ASSIGNMENT, "", Version(1, "w0"), {})])
    assert await setup.mirror.flush()
    ((topic, body),) = setup.log.written
    ((record,), _) = read_message(body).records()
    assert (topic, record.key, record.value) == ("control", "route", CONNECTOR)
    assert await setup.mirror.flush()
    assert len(setup.log.written) == 1


async def test_what_a_failover_needs_is_written_soon(make: Callable[..., Setup]) -> None:
    """Which topics are copied: who fails over without the source opens no others. Progress can wait."""
    setup = await opened(make())
    setup.mirror.note([setup.store.state.put(Kind.STATUS, "w0", {})])
    await asyncio.sleep(0.05)
    assert setup.log.written == []
    setup.mirror.note([setup.store.state.put(Kind.TASK, "route/t", {"queues": {}})])
    await until(lambda: setup.log.written)
    await setup.mirror.close()


async def test_what_cannot_be_written_stays_noted(make: Callable[..., Setup]) -> None:
    setup = await opened(make())
    setup.mirror.note([setup.store.state.put(Kind.CONNECTOR, "route", {})])
    setup.log.failure = Unreachable("b", "down")
    assert not await setup.mirror.flush()
    assert "down" in setup.mirror.reason
    setup.log.failure = None
    assert await setup.mirror.flush()
    assert len(setup.log.written) == 1
    assert setup.mirror.reason == ""


async def test_a_group_that_coordinates_there_writes_nothing_twice(make: Callable[..., Setup]) -> None:
    setup = await opened(make("target"))
    setup.mirror.note([setup.store.state.put(Kind.CONNECTOR, "route", {})])
    assert await setup.mirror.flush()
    assert setup.log.written == []


async def test_what_others_say_there_is_learnt(make: Callable[..., Setup]) -> None:
    setup = await opened(make())
    stopped = Record(Kind.CONNECTOR, "route", Version(9, "w9"), CONNECTOR)
    setup.say(records(stopped, Record(Kind.ASSIGNMENT, "", Version(9, "w9"), {"members": [], "owners": {}})))
    assert setup.store.state.get(Kind.CONNECTOR, "route") == CONNECTOR
    assert setup.store.state.record(Kind.ASSIGNMENT, "") is None
    assert setup.news == [{Kind.CONNECTOR}]
    setup.say(records(stopped))
    assert len(setup.news) == 1
    setup.say(b"garbage")
    (other_group,) = write_records(
        Author("other", "w9", "i9"), itertools.count(1), [stopped._replace(version=Version(99, "w9"), value=None)]
    )
    setup.say(other_group)
    assert setup.store.state.get(Kind.CONNECTOR, "route") == CONNECTOR


async def test_tasks_wait_until_all_was_read_and_our_heartbeat_after_it(make: Callable[..., Setup]) -> None:
    """Whatever was decided there before we came, such as a failover, is known then."""
    setup = await opened(make())
    await setup.mirror.beat({}, MemberState.ONLINE)
    assert not setup.mirror.caught_up
    setup.log.was_read = setup.log.caught_up = True
    assert not setup.mirror.caught_up
    setup.deliver()
    assert setup.mirror.caught_up
    assert setup.woken


async def test_a_target_that_refuses_the_topics_is_not_waited_for(
    make: Callable[..., Setup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has done so for a session timeout."""
    setup, clock = make(), [1000.0]
    monkeypatch.setattr(under_test, "now", lambda: clock[0])
    refused = StartupError("no")
    refused.__cause__ = BrokerRefused("b", 17, 16, "no permission")
    setup.log.failure = refused
    opening = asyncio.create_task(setup.mirror.open(dict))
    await asyncio.sleep(0)
    assert not setup.mirror.caught_up
    assert "no" in setup.mirror.reason
    clock[0] += 5.1
    assert setup.mirror.caught_up
    opening.cancel()


async def test_one_refusal_does_not_start_tasks(
    make: Callable[..., Setup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while accounts are changed: what was stopped at the target would run for good."""
    setup, clock = await opened(make()), [1000.0]
    monkeypatch.setattr(under_test, "now", lambda: clock[0])
    setup.log.failure = BrokerRefused("b", 310, 16, "no permission")
    await setup.mirror.beat({}, MemberState.ONLINE)
    assert not setup.mirror.caught_up
    assert setup.mirror.listened() is None
    setup.log.failure = None
    await setup.mirror.beat({}, MemberState.ONLINE)
    clock[0] += 6
    assert not setup.mirror.caught_up


async def test_others_are_seen_there(make: Callable[..., Setup]) -> None:
    """Those without a lease, and those that left are not."""
    setup = await opened(make())
    await setup.mirror.beat({}, MemberState.ONLINE)
    setup.deliver()
    setup.say(
        setup.beat("w1", observers_of("g", "east"), coordination="source", tasks={"route/t": "RUNNING"}), "online"
    )
    assert setup.mirror.membership.others["w1"].tasks == {"route/t": "RUNNING"}
    setup.say(setup.beat("w1", observers_of("g", "east"), MemberState.LEFT, coordination="source"), "online")
    assert setup.mirror.membership.others == {}
    assert setup.mirror.conflict is None


@pytest.mark.parametrize("worker", ["w1", "w0"])
@pytest.mark.parametrize(
    ("mine", "group", "theirs"), [("source", "g", "target"), ("target", observers_of("g", "east"), "source")]
)
async def test_workers_that_coordinate_elsewhere_are_found(
    make: Callable[..., Setup], mine: Literal["source", "target"], group: str, theirs: str, worker: str
) -> None:
    """Before our own heartbeat is back or after it: of two that start at once one finds the other.

    Also one with our id: each of the two is alone on its own log.
    """
    setup = await opened(make(mine))
    await setup.mirror.beat({}, MemberState.ONLINE)
    setup.say(setup.beat(worker, group, coordination=theirs), "online")
    assert setup.mirror.conflict is None
    setup.deliver()
    assert setup.mirror.conflict is not None
    assert repr(worker) in str(setup.mirror.conflict)
    assert "coordination" in str(setup.mirror.conflict)


@pytest.mark.parametrize(("mine", "group"), [("source", observers_of("g", "east")), ("target", "g")])
async def test_our_own_process_before_a_restart_is_not_a_conflict(
    make: Callable[..., Setup], mine: Literal["source", "target"], group: str
) -> None:
    """Nor are our heartbeats on the group's own log, which are of another incarnation."""
    setup = await opened(make(mine))
    await setup.mirror.beat({}, MemberState.ONLINE)
    setup.say(setup.beat("w0", group, coordination=mine), "online")
    setup.deliver()
    setup.say(setup.beat("w0", group, coordination=mine), "online")
    assert setup.mirror.conflict is None
    assert setup.mirror.membership.others == {}


async def test_what_is_signed_for_the_source_means_nothing_there(make: Callable[..., Setup]) -> None:
    """Nor what is not signed at all; what another worker's mirror writes is believed."""
    secret = "s" * 32
    setup = await opened(make(secret=secret))
    body = records(Record(Kind.CONNECTOR, "route", Version(9, "w9"), CONNECTOR))
    for forged in (
        body,
        Signer(secret).sign("control", MIRROR, body),
        Signer("t" * 32, cluster="target").sign("control", MIRROR, body),
    ):
        setup.say(forged)
    assert setup.news == []
    assert setup.mirror.inbox.ignored == {"unsigned": 1, "wrong_signature": 2}
    setup.say(Signer(secret, cluster="target").sign("control", MIRROR, body))
    assert setup.news == [{Kind.CONNECTOR}]


async def test_the_whole_topic_is_read_where_the_recent_part_has_nothing(make: Callable[..., Setup]) -> None:
    """A stop that was decided long ago holds, and tasks wait for it."""
    setup = make()
    waiting = await until_the_whole_topic_is_read(setup)
    body = records(Record(Kind.CONNECTOR, "route", Version(9, "w9"), CONNECTOR))
    setup.mirror.on_past(LogMessage(MessageQueue("control", "b", 0), body, 1))
    await ended(setup, waiting)
    assert setup.mirror.caught_up
    assert setup.store.state.get(Kind.CONNECTOR, "route") == CONNECTOR
    assert setup.mirror.inbox.ignored == {}


async def until_the_whole_topic_is_read(setup: Setup) -> asyncio.Task[None]:
    """The recent part was read: only one that has just started has published there, and knows no more than we."""
    setup.mirror.use(setup.log, setup.read_whole)
    await opened(setup)
    await setup.mirror.beat({}, MemberState.ONLINE)
    setup.deliver()
    setup.log.was_read = setup.log.caught_up = True
    setup.say(records(Record(Kind.CLUSTERS, "", Version(1, "w8"), CLUSTERS)), stored=1000 - 59_000)
    waiting = asyncio.create_task(setup.mirror.read({}))
    setup.mirror.on_caught_up()
    await until(lambda: setup.caught_up)
    assert not setup.mirror.caught_up
    return waiting


async def ended(setup: Setup, waiting: asyncio.Task[None]) -> None:
    """The whole topic has been read."""
    assert setup.caught_up is not None
    setup.whole.caught_up = setup.whole.was_read = True
    setup.caught_up()
    await waiting


async def test_a_whole_topic_that_no_broker_has_shown_is_not_read(make: Callable[..., Setup]) -> None:
    """A broker that drops the connection is not waited for; but where it is the only one, nothing is known."""
    setup = make()
    waiting = await until_the_whole_topic_is_read(setup)
    assert setup.caught_up is not None
    setup.whole.caught_up = True
    setup.caught_up()
    await asyncio.sleep(0.01)
    assert not setup.mirror.caught_up
    await ended(setup, waiting)
    assert setup.mirror.caught_up


async def test_a_whole_topic_that_cannot_be_opened_is_tried_again(
    make: Callable[..., Setup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "_OPEN_FIRST", 0.01)
    setup = make()
    setup.whole.failure = Unreachable("b", "down")
    waiting = await until_the_whole_topic_is_read(setup)
    await asyncio.sleep(0.01)
    assert not setup.mirror.caught_up
    setup.whole.failure = None
    await until(lambda: setup.whole.opened)
    await ended(setup, waiting)
    assert setup.mirror.caught_up


async def test_a_whole_topic_that_stays_unread_does_not_hold_tasks_for_ever(
    make: Callable[..., Setup], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(under_test, "now", lambda: clock[0])
    setup = make()
    waiting = await until_the_whole_topic_is_read(setup)
    clock[0] += 19.0
    assert not setup.mirror.caught_up
    clock[0] += 2.0
    assert setup.mirror.caught_up
    waiting.cancel()


async def test_the_whole_topic_is_left_where_the_recent_part_has_the_group(make: Callable[..., Setup]) -> None:
    setup = make()
    setup.mirror.use(setup.log, lambda _read: pytest.fail("it was read"))
    await opened(setup)
    await setup.mirror.beat({}, MemberState.ONLINE)
    setup.deliver()
    setup.say(records(Record(Kind.CLUSTERS, "", Version(1, "w9"), CLUSTERS)), stored=1000 - 61_000)
    setup.mirror.on_caught_up()
    await setup.mirror.read({})


async def test_patience_does_not_end_while_the_whole_topic_is_read(
    make: Callable[..., Setup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a long line it takes minutes, and a route that was stopped there would run meanwhile."""
    setup, past, clock = make(), FakeLog(), [1000.0]
    monkeypatch.setattr(under_test, "now", lambda: clock[0])
    setup.mirror.use(setup.log, lambda _read: past)
    await opened(setup)
    for _ in range(10):
        clock[0] += 19.0
        setup.mirror.on_past(LogMessage(MessageQueue("control", "b", 0), b"{}", 1))
        assert not setup.mirror.caught_up
    clock[0] += 21.0
    assert setup.mirror.caught_up
