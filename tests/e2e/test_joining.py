"""How a worker joins its group: as soon as it has heard itself and all that was said before, whichever is last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from replicator.errors import ClientError
from replicator.group.assignment import sticky
from replicator.group.control_log import LogMessage
from replicator.group.coordinator import Coordinator
from replicator.group.freshness import Echo
from replicator.group.job_claim import jobs_of
from replicator.group.member import Group
from replicator.group.membership import Heartbeat, MemberState
from replicator.group.signature import Signer
from replicator.group.wire import read_message, write_heartbeat
from replicator.routing.message_queue import MessageQueue
from replicator.state.record import Kind
from replicator.state.store import Store
from tests.support.members import member_of
from tests.support.records import CONNECTOR
from tests.support.scene import SceneOf

ONLINE = MessageQueue("source-online", "a", 0)


class FakeLog:
    """Says back what is written to it when it is told to, and what is not read to its end yet."""

    def __init__(self) -> None:
        self.caught_up = False
        self.broken = False
        self.written: list[LogMessage] = []

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None:
        assert copies
        if self.broken:
            raise ClientError("the source is dead")
        self.written.append(LogMessage(MessageQueue(topic, ONLINE.broker, 0), body, 1_000_000))


@pytest.fixture
def group(tmp_path: Path) -> Group:
    coordinator = Coordinator("me", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5)
    return member_of(coordinator, Store(tmp_path), waits_for=lambda info: info["topics"] == ["ours"])


@pytest.mark.parametrize("echo_first", [True, False])
async def test_whichever_comes_last(group: Group, *, echo_first: bool) -> None:
    log = FakeLog()
    group.use(log)
    await group.beat({}, target_reachable=True)

    def echo() -> None:
        for said in log.written:
            group.on_said(said)

    def catch_up() -> None:
        log.caught_up = True
        group.join()

    first, second = (echo, catch_up) if echo_first else (catch_up, echo)
    first()
    assert not group.joined.is_set()
    second()
    assert group.joined.is_set()


@pytest.mark.parametrize("lives", [True, False])
async def test_a_process_with_our_id_was_there_before(group: Group, *, lives: bool) -> None:
    """We do not join before it would have been heard again; if it is, it goes on, and we end."""
    log = FakeLog()
    group.use(log)
    other = Heartbeat(worker="me", incarnation="other", sequence=1, echo=Echo("a", 1_000_000))

    def hear(heartbeat: Heartbeat) -> None:
        group.on_said(LogMessage(ONLINE, write_heartbeat("g", heartbeat), 1_000_000))

    hear(other)
    log.caught_up = True
    for _ in range(2):
        await group.beat({}, target_reachable=True)
        group.on_said(log.written[-2])
        assert not group.joined.is_set()
    if lives:
        hear(replace(other, sequence=2))
        assert "is used by another worker" in str(group.conflict)
    await group.beat({}, target_reachable=True)
    group.on_said(log.written[-2])
    assert group.joined.is_set()
    assert (group.conflict is not None) == lives


@pytest.mark.parametrize("how", ["ends", "falls silent", "copies others"])
async def test_a_job_copies_our_queues(group: Group, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """We join when it says that it has ended, or says nothing for a session timeout; at once if they are others."""
    log, clock = FakeLog(), 1000.0
    monkeypatch.setattr("replicator.group.member.now", lambda: clock)
    log.caught_up = True
    group.use(log)
    topics = ["others"] if how == "copies others" else ["ours"]
    job = Heartbeat(worker="backfill", incarnation="job", sequence=1, info={"topics": topics})

    def hear(heartbeat: Heartbeat) -> None:
        group.on_said(LogMessage(ONLINE, write_heartbeat(jobs_of("g"), heartbeat), int(clock * 1000)))

    async def beat() -> None:
        await group.beat({}, target_reachable=True)
        group.on_said(log.written[-2])
        group.join()

    hear(job)
    await beat()
    assert group.joined.is_set() == (how == "copies others")
    assert group.waiting_for == ("" if group.joined.is_set() else "backfill")
    if how == "ends":
        hear(replace(job, sequence=2, stage=MemberState.LEFT))
    clock += 4.0
    await beat()
    assert group.joined.is_set() == (how != "falls silent")
    clock += 2.0
    await beat()
    assert group.joined.is_set()
    assert group.waiting_for == ""


async def test_a_process_with_our_id_that_comes_later_is_no_matter(group: Group) -> None:
    """That one ends, even if it has said more by now."""
    log = FakeLog()
    log.caught_up = True
    group.use(log)
    await group.beat({}, target_reachable=True)
    group.on_said(log.written[0])
    assert group.joined.is_set()
    for sequence in range(1, 9):
        later = Heartbeat(worker="me", incarnation="other", sequence=sequence)
        group.on_said(LogMessage(ONLINE, write_heartbeat("g", later), 1_000_000))
    assert group.conflict is None


@pytest.mark.parametrize("lives", [True, False])
async def test_a_process_took_our_place_while_we_were_away(
    group: Group, monkeypatch: pytest.MonkeyPatch, *, lives: bool
) -> None:
    """Longer than anybody waits for us: it goes on and we end, or it has ended, and we take our place again."""
    log, clock = FakeLog(), 1000.0
    monkeypatch.setattr("replicator.group.member.now", lambda: clock)
    log.caught_up = True
    group.use(log)

    async def beat() -> None:
        await group.beat({}, target_reachable=True)
        for said in log.written[-2:]:
            group.on_said(said)
        group.coordinator.step(clock, set(), wanted=lambda _: True)

    await beat()
    assert group.coordinator.holds_lease(clock)
    clock += 60
    other = Heartbeat(worker="me", incarnation="other", sequence=7, echo=Echo("a", 1_049_000))
    group.on_said(LogMessage(ONLINE, write_heartbeat("g", other), 1_050_000))
    await beat()
    assert not group.coordinator.holds_lease(clock)
    if lives:
        group.on_said(LogMessage(ONLINE, write_heartbeat("g", replace(other, sequence=8)), 1_061_000))
        assert "is used by another worker" in str(group.conflict)
    clock += 1
    await beat()
    assert group.coordinator.holds_lease(clock)
    assert (group.conflict is not None) == lives


async def test_what_could_not_be_told_is_told_with_the_first_heartbeat(group: Group) -> None:
    """The others, too, begin again when the source is back: by what they know then."""
    log = FakeLog()
    group.use(log)
    log.broken = True
    await group.beat({}, target_reachable=True)
    group.store.put(Kind.CONNECTOR, "route", CONNECTOR)
    assert not await group.publish()
    log.broken = False
    await group.beat({}, target_reachable=True)
    ((record,), _) = read_message(log.written[-1].body).records()
    assert record.value == CONNECTOR
    await group.beat({}, target_reachable=True)
    assert log.written[-1].queue.topic == "sink-online"


async def test_a_worker_alone_needs_one_heartbeat(scene: SceneOf) -> None:
    """Not the next one, which comes 20 seconds later; and nothing goes wrong with its files meanwhile."""
    async with scene(queues=2) as here:
        await here.produce(10)
        flags = ("--log-level", "debug", "--heartbeat-interval", "20", "--session-timeout", "90")
        async with here.worker(*flags) as worker:
            await worker.caught_up(here.topic, 10)
            events = worker.events
    said = [(event["event"], event.get("sequence")) for event in events]
    assert ("heartbeat", 1) in said
    assert said.index(("tasks assigned", None)) < said.index(("heartbeat", 2))
    wrong = [event for event in events if event["level"] in ("warning", "error")]
    # Another test fills the same topics with garbage.
    usual = ("message on a system topic ignored", "the system topics are not signed")
    assert not [event for event in wrong if not event["event"].startswith(usual)]


async def test_each_heartbeat_names_the_last_one_that_came_back(group: Group) -> None:
    """So others see that it was written after that: by the broker's clock, and by its newest one."""
    log = FakeLog()
    group.use(log)

    async def beat(stored: int) -> Echo | None:
        await group.beat({}, target_reachable=False)
        heartbeat = read_message(log.written[-1].body).heartbeat
        group.on_said(log.written[-1]._replace(stored=stored))
        assert heartbeat is not None
        return heartbeat.echo

    assert [await beat(n) for n in (5, 7, 6)] == [None, Echo("a", 5), Echo("a", 7)]


async def test_replayed_first_heartbeats_of_our_own_past_do_not_end_us(group: Group) -> None:
    """They are the only ones without an echo; a process that lives has one from its second heartbeat on."""
    log = FakeLog()
    log.caught_up = True
    group.use(log)
    replayed = LogMessage(ONLINE, write_heartbeat("g", Heartbeat(worker="me", incarnation="past", sequence=1)), 1)
    group.on_said(replayed)
    for _ in range(4):
        await group.beat({}, target_reachable=True)
        group.on_said(log.written[-2])
        group.on_said(replayed)
    assert group.conflict is None
    assert group.joined.is_set()


async def test_reading_goes_on_behind_a_message_that_cannot_be_handled(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted; nothing of the like is known, but an error here would end the reader silently."""
    monkeypatch.setattr(group.store, "merge", lambda _record: 1 // 0)
    body = b'{"version":1,"group":"g","worker":"w","records":[["status","w",[1,"w"],null]]}'
    group.on_said(LogMessage(MessageQueue("control", "a", 0), body, 1))
    assert group.inbox.ignored == {"failed": 1}


async def test_a_signed_group_neither_hears_nor_obeys_anybody_else(group: Group) -> None:
    """No fake worker, no fake record, none of our own heartbeats by another hand."""
    signed = member_of(group.coordinator, group.store, signer=Signer("s" * 32), waits_for=lambda _info: True)
    log = FakeLog()
    log.caught_up = True
    signed.use(log)
    forger = Signer("x" * 32)
    for topic in ("source-online", "sink-online"):
        for worker, name in (("aaa", "g"), ("me", "g"), ("backfill", jobs_of("g"))):
            beat = write_heartbeat(name, Heartbeat(worker=worker, incarnation="i", sequence=1))
            for body in (beat, forger.sign(topic, name, beat)):
                signed.on_said(LogMessage(MessageQueue(topic, "a", 0), body, 1_000_000))
    deletion = b'{"version":1,"group":"g","worker":"evil","records":[["connector","route",[9,"evil"],null]]}'
    signed.on_said(LogMessage(MessageQueue("control", "a", 0), deletion, 1_000_000))
    assert signed.store.state.record(Kind.CONNECTOR, "route") is None
    await signed.beat({}, target_reachable=True)
    for said in log.written:
        signed.on_said(said)
    assert signed.joined.is_set()
    assert signed.coordinator.membership.others == {}
    assert signed.conflict is None
    assert signed.inbox.ignored == {"unsigned": 7, "wrong_signature": 6}


async def test_records_that_do_not_fit_are_counted_and_left_out(group: Group) -> None:
    records = b'["assignment","",[1000000000,"evil"],{}],["status","w",[3,"w"],{"topics":[],"problems":{}}]'
    body = b'{"version":1,"group":"g","worker":"evil","records":[%b]}' % records
    group.on_said(LogMessage(MessageQueue("control", "a", 0), body, 1))
    assert group.store.skipped.counts == {"topic": 1, "file": 0}
    assert group.store.state.get(Kind.STATUS, "w") == {"topics": [], "problems": {}}
    assert group.coordinator.assignment.owners == {}
