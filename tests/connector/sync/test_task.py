"""What a metadata task, and whoever asks it, tell of brokers that do not answer."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.testing import capture_logs

from acl_sync import AclPlan, AclSyncer
from acl_sync.model import Dialect
from replicator.admin.pending_messages import Pending
from replicator.admin.readiness import readiness
from replicator.api import sync as api
from replicator.api.envelope import NotDone
from replicator.client.offsets import OffsetTable
from replicator.client.topics import TopicConfig
from replicator.connector.sync import task as module
from replicator.connector.sync.acl import AclSync
from replicator.errors import Unreachable
from replicator.metadata import group_positions, syncer, target_consumers, target_ends
from replicator.metadata.action import Action, Commit, Unasked
from replicator.metadata.offsets import CopiedQueue
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from replicator.worker.worker import Worker
from tests.connector.sync.conftest import KINDS, Setup
from tests.metadata.test_redelivery_plan import holding


async def test_what_is_not_known_is_not_ready(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind at each broker that did not answer, also when a later kind's brokers all did."""

    async def nothing_waits(*_: object, **_more: object) -> Pending:
        return Pending()

    monkeypatch.setattr("replicator.admin.readiness.pending_messages", nothing_waits)
    monkeypatch.setattr("replicator.admin.silent_brokers.silent_brokers", AsyncMock(return_value={}))
    monkeypatch.setattr("replicator.admin.readiness.reason_of_none", lambda _: [])  # the scene has no topics
    assert (await readiness(setup.route, setup.context, seen_at=time.time() - 80))["ready"]
    old = await readiness(setup.route, setup.context, seen_at=time.time() - 100)
    assert (old["ready"], len(old["reasons"])) == (False, 1)
    assert old["reasons"][0].startswith("which topics the clusters have was last seen at 2")
    setup.target.away = {"x"}
    told = await readiness(setup.route, setup.context, seen_at=time.time())
    assert (told["ready"], len(told["reasons"])) == (False, 3)
    assert all(reason.startswith(f"{kind} at x: ") for kind, reason in zip(KINDS, told["reasons"], strict=True))
    setup.target.away, setup.source.orders_at = set(), {"n:1": None}
    (one,) = (await readiness(setup.route, setup.context, seen_at=time.time() - 100))["reasons"]
    assert one.startswith("the brokers of the source cannot be looked up: n:1 cannot be reached (away): ")
    setup.target.away, setup.source.orders_at = {"x"}, {"n:1": {}}
    look = await setup.task.plan()
    assert {(each.kind, each.broker) for each in look.unasked} == {(kind, "x") for kind in KINDS}


async def test_what_could_not_be_looked_at_is_not_done(setup: Setup) -> None:
    assert await setup.task.sync() == []
    setup.target.away = {"y"}
    done = [each.shown() for each in await setup.task.sync()]
    assert [(each["kind"], each["broker"]) for each in done] == [(kind, "y") for kind in KINDS]
    assert all("away" in each["error"] for each in done)


async def test_accounts_that_could_not_be_looked_at(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the other kinds."""

    async def plan(_: AclSyncer) -> AclPlan:
        return AclPlan(
            source=Dialect.ACL2, targets={}, unreachable_brokers=(("x", "target broker x is skipped now"),)
        )

    monkeypatch.setattr(AclSyncer, "plan", plan)
    told = Unasked("acl", "x", "target broker x is skipped now")
    task = setup.syncing("groups", "acl")
    assert (await task.plan()).unasked == [told]
    assert await task.sync() == [told]
    assert "is skipped" in task.reason
    assert (await task.hand_over(open_all=False))[1] == [str(told)]


async def test_a_switch_tells_of_topics_that_it_cannot_open(setup: Setup) -> None:
    """Groups and offsets are told one by one, and topics too."""
    queue_map = {Queue("a", 0): Queue("y", 0)}
    setup.topics.plans = setup.topics.of_users = [TopicPlan(topic="T", target_topic="T", queue_map=queue_map)]
    setup.source.topics["a"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1)
    setup.target.topics["y"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1, perm=4)
    setup.target.away = {"y"}
    done, problems = await setup.task.hand_over(open_all=False)
    assert (done, len(problems)) == ([], 3)
    assert problems[2].startswith("topics at y: ")


@pytest.mark.parametrize(("at_source", "after"), [(4, 4), (6, 6), (None, 6)])
async def test_a_switch_opens_what_a_dead_broker_had(setup: Setup, at_source: int | None, after: int) -> None:
    """It died before this task first looked; the worker knows what it had then, or nobody does."""
    queue_map = {Queue("b", 0): Queue("y", 0)}
    setup.topics.plans = setup.topics.of_users = [TopicPlan(topic="T", target_topic="T", queue_map=queue_map)]
    setup.source.topics["b"] = {}
    setup.source.away = {"b"}
    topic = TopicConfig(name="T", read_queues=1, write_queues=1, perm=4)
    setup.context.source.topics = {} if at_source is None else {"b": {"T": replace(topic, perm=at_source)}}
    setup.target.topics["y"]["T"] = topic
    await setup.task.hand_over(open_all=False)
    assert setup.target.topics["y"]["T"].perm == after


async def test_a_switch_goes_no_further_than_it_may(setup: Setup) -> None:
    """The route was resumed after its first change: no other group is written, and no topic opened."""
    for name in ("G1", "G2"):
        setup.source.groups["a"][name] = {"groupName": name}
    setup.topics.plans = setup.topics.of_users = [
        TopicPlan(topic="T", target_topic="T", queue_map={Queue("a", 0): Queue("x", 0)})
    ]
    setup.source.topics["a"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1)
    setup.target.topics["x"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1, perm=4)
    begun: list[str] = []
    done, problems = await setup.task.hand_over(
        open_all=True, begins=begun.append, may_go_on=lambda: not any(setup.target.groups.values())
    )
    assert setup.target.topics["x"]["T"].perm == 4
    assert sum(len(groups) for groups in setup.target.groups.values()) == 1
    assert (len(done), done[0].error, problems, begun) == (1, "", [], ["groups", "topics"])


async def test_no_account_is_changed_by_a_switch_that_may_not_go_on(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AclSync, "sync", lambda _: pytest.fail("accounts are synced"))
    assert await setup.syncing("acl").hand_over(open_all=False, may_go_on=lambda: False) == ([], [])


async def test_groups_of_a_switch_are_remembered(setup: Setup) -> None:
    """As those that were written by the route, which nobody has changed since. A dry run writes none."""
    setup.source.groups["a"]["G"] = {"groupName": "G", "retryMaxTimes": 3}
    for dry_run in (True, False):
        assert setup.task.ledger.of("groups") == {}
        await setup.task.hand_over(open_all=False, dry_run=dry_run)
    assert {key for key, entry in setup.task.ledger.of("groups").items() if entry.wanted["retryMaxTimes"] == 3} == {
        ("x", "G"),
        ("y", "G"),
    }


async def test_a_switch_is_told_though_the_audit_log_is_not_written(setup: Setup) -> None:
    """And so is a sync; the log has what was done."""
    setup.context.audit = SimpleNamespace(note=lambda _: "No space left on device")
    setup.topics.plans = setup.topics.of_users = [
        TopicPlan(topic="T", target_topic="T", queue_map={Queue("a", 0): Queue("x", 0)})
    ]
    setup.source.topics["a"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1)
    setup.target.topics["x"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1, perm=4)
    done, problems = await setup.task.hand_over(open_all=False)
    assert [each.action.key for each in done] == ["T"]
    assert len(problems) == 1
    assert "No space left" in problems[0]
    setup.source.topics["a"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1, order=True)
    assert len(await setup.task.sync()) == 1
    assert "No space left" in setup.task.reason


async def test_what_is_not_synced_any_more_has_no_status(setup: Setup) -> None:
    """Its last problem would stay for ever, and its last success grow older."""
    setup.target.away = {"x"}
    await setup.task.sync()
    assert "topics: x" in setup.task.reason
    setup.target.away = set()
    task = setup.syncing("groups")
    assert task.status["kinds"].keys() == {"groups"}
    await task.sync()
    assert task.reason == ""
    assert task.ledger.get("status")["kinds"].keys() == {"groups"}


async def test_a_source_that_is_away_is_not_asked_for_every_group(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt to reach it takes seconds."""
    offsets = OffsetTable({(f"g{i}", "T"): {0: 5} for i in range(20)}, b"")
    setup.source.groups["a"] = {f"g{i}": {} for i in range(20)}
    pulls = []

    async def read(broker: Any, *, known: OffsetTable | None) -> OffsetTable:
        return offsets if broker.name == "a" else OffsetTable({}, b"")

    async def end(*_: object) -> int:
        return 0

    async def message_at(broker: Any, *_: object) -> None:
        pulls.append(broker.name)
        raise Unreachable(broker.name, "away")

    for name, fake in (("read_offsets", read), ("message_at", message_at)):
        monkeypatch.setattr(group_positions, name, fake)
    for name in ("min_offset", "max_offset"):
        monkeypatch.setattr(target_ends, name, end)
    copied = CopiedQueue(Queue("a", 0), Queue("x", 0), "T", position=9, start=0, offsets=OffsetMap(), floor=0)
    found = await setup.task._syncer.places.read(lambda _topic, _queue: copied)
    assert (len(found), pulls) == (20, ["a"])
    setup.source.away = {"a"}  # it has been seen to be away already
    assert len(await setup.task._syncer.places.read(lambda _topic, _queue: copied)) == 20


class Consumed:
    """Groups with offsets at the source in 16 queues of T, which are copied; if `synced`, at the target too."""

    QUEUES = 16

    def __init__(self, setup: Setup, monkeypatch: pytest.MonkeyPatch, groups: int, *, synced: bool = False) -> None:
        table = {(f"g{i}", "T"): dict.fromkeys(range(self.QUEUES), 5) for i in range(groups)}
        offsets = OffsetMap([Interval(0, 0, 9)])
        self.committed: list[str] = []

        async def read(broker: Any, *, known: OffsetTable | None) -> OffsetTable:
            return OffsetTable(table if synced or broker.name == "a" else {}, b"")

        async def apply(_: object, action: Action) -> None:
            assert isinstance(action.write, Commit)
            self.committed.append(action.write.group)

        async def beginning(*_: object) -> int:
            return 0

        async def nothing(*_: object) -> None:
            return None

        async def nobody(*_: object) -> list[str]:
            return []

        def copied(_: str, source: Queue) -> CopiedQueue:
            return CopiedQueue(source, Queue("x", source.queue_id), "T", 9, 0, offsets, 0)

        setup.source.groups["a"] = {f"g{i}": {} for i in range(groups)}
        monkeypatch.setattr(group_positions, "read_offsets", read)
        monkeypatch.setattr(group_positions, "message_at", nothing)
        monkeypatch.setattr(target_ends, "min_offset", beginning)
        monkeypatch.setattr(target_consumers, "consumers", nobody)
        monkeypatch.setattr(syncer, "apply", apply)
        monkeypatch.setattr(setup.task.copied, "_copied", copied)


async def test_others_get_their_turn_while_many_groups_are_looked_at(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease of the worker is among them: it lasts for seconds, and so does a look at 100,000 places."""
    groups = 250
    Consumed(setup, monkeypatch, groups, synced=True)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    _, places = await setup.task._syncer.plan_offsets(setup.task.copied.snapshot())
    looked = turns
    await setup.task.sync(["offsets"])
    task.cancel()
    slices = groups * Consumed.QUEUES / 300
    assert len(places) == groups * Consumed.QUEUES
    assert looked > 2 * slices, "they are looked at, and planned for"
    assert turns - looked > 3 * slices, "and summed up"


async def test_offsets_of_what_is_no_group(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted with its offsets left, say: each commit would be refused, for ever, and nothing be ready."""
    consumed = Consumed(setup, monkeypatch, 2)
    del setup.source.groups["a"]["g1"]
    await setup.task.sync(["offsets"])
    assert consumed.committed == ["g0"] * Consumed.QUEUES
    setup.source.groups["a"]["g1"] = {}  # it is made again
    consumed.committed.clear()
    await setup.task.sync(["offsets"])
    assert sorted({*consumed.committed}) == ["g0", "g1"]


async def test_what_is_asked_for_is_done_once(setup: Setup) -> None:
    """The group knows that it is begun before it is: whoever takes the task over does not force it once more."""
    ledger = setup.task.ledger
    asked = ledger.ask(["g"], seconds=60)
    await setup.task._serve()
    assert ledger.answered(asked) == []
    assert [dict(told).get("route/answer") for told in setup.told] == [{"id": asked, "done": None, "earlier": []}]
    ledger.answer(asked, None)  # all that the next owner knows, if this one dies meanwhile
    await setup.task._serve()
    assert (ledger.answered(asked), ledger.is_taken(asked), len(setup.told)) == (None, True, 1)


async def test_what_was_asked_for_names_who_did(setup: Setup) -> None:
    """In the log of the worker that was asked, and in log and audit log of the one that does it: another one."""
    setup.topics.plans = setup.topics.of_users = [
        TopicPlan(topic="T", target_topic="T", queue_map={Queue("a", 0): Queue("x", 0)})
    ]
    setup.source.topics["a"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1)
    setup.target.topics["x"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1, order=True)
    setup.context.store.save_queue_map("route", "T", "T", {Queue("a", 0): Queue("x", 0)}, fresh=[Queue("a", 0)])

    async def others_do() -> None:
        await asyncio.create_task(setup.task._serve(), context=Context())

    worker: Any = SimpleNamespace(changed=others_do)
    with capture_logs([merge_contextvars]) as logs, bound_contextvars(actor="REST 10.0.0.1"):
        done = await api._applied(cast("Worker", worker), "route", setup.task.ledger, ["g"])
    assert [entry.get("actor") for entry in setup.audited] == ["REST 10.0.0.1"] * len(done) != []
    for event in ("apply requested", "changes asked for are applied"):
        (found,) = [entry for entry in logs if entry["event"] == event]
        assert (found["actor"], found["connector"], found["forced"]) == ("REST 10.0.0.1", "route", ["g"])
    setup.source.topics["a"]["T"] = TopicConfig(name="T", read_queues=1, write_queues=1, order=True)
    assert len(await setup.task.sync()) == len(setup.audited) - len(done) > 0
    assert "actor" not in setup.audited[-1], "nobody asked for it"


async def test_what_nobody_waits_for_is_not_done(setup: Setup) -> None:
    """Neither when its time is over, nor when it was withdrawn."""
    ledger = setup.task.ledger
    expired = ledger.ask(["g"], seconds=-1)
    await setup.task._serve()
    withdrawn = ledger.ask(["g"], seconds=60)
    ledger.withdraw(expired)  # another's request is left alone
    assert ledger.get("request")["id"] == withdrawn
    ledger.withdraw(withdrawn)
    await setup.task._serve()
    assert ledger.get("answer") == {}


async def test_what_the_group_could_not_be_told_is_not_done(setup: Setup) -> None:
    """And who asked for it hears so at once."""
    ledger = setup.task.ledger
    setup.hears = False
    unheard = ledger.ask(["g"], seconds=60)
    for _ in range(2):
        await setup.task._serve()
    answered = ledger.answered(unheard)
    assert answered is not None
    assert [(each["kind"], "nothing was done" in each["error"]) for each in answered] == [(k, True) for k in KINDS]
    assert ledger.get("status") == {}, "nothing was looked at"
    setup.hears = True
    assert ledger.ask(["g"], seconds=60), "the next one may ask"


async def test_who_asks_in_vain_withdraws_it(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """The route is paused, say."""
    monkeypatch.setattr(api, "_ANSWER_SECONDS", 0.01)
    worker: Any = SimpleNamespace(changed=setup.publish)
    ledger = setup.task.ledger
    with pytest.raises(NotDone, match="none will later"):
        await api._applied(cast("Worker", worker), "route", ledger, ["g"])
    assert setup.told[-1] == [("route/request", None)]
    await setup.task._serve()
    assert ledger.get("answer") == {}


async def test_a_lease_that_is_lost_again_meanwhile(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way takes its time to end, and two stops wait for it."""
    setup.task._acl = SimpleNamespace(forget=lambda: None)  # type: ignore[assignment]
    over = asyncio.Event()

    async def takes_its_time() -> None:
        with suppress(asyncio.CancelledError):
            await over.wait()
        await over.wait()

    monkeypatch.setattr(setup.task, "sync", takes_its_time)
    async with asyncio.TaskGroup() as group:
        setup.task.start(group)
        for seconds in (0.0, 60.0):
            monkeypatch.setattr(module, "_FINISH", seconds)
            group.create_task(setup.task.stop())
            await asyncio.sleep(0.01)
        over.set()


async def test_what_pop_consumers_hold_is_kept_for_whoever_has_not_seen_it(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has written the record does not go by it."""
    places = [holding(3, 5)]

    async def plan_offsets(*_: object, **__: object) -> Any:
        return [], places

    monkeypatch.setattr(setup.task._syncer, "plan_offsets", plan_offsets)
    other = setup.syncing(*KINDS)
    await setup.task.sync(["offsets"])
    assert setup.task._syncer.places.recorded() == []
    (found,) = other._syncer.places.recorded()
    assert (found.group, found.first, found.delivered, len(found.held)) == ("G", 3, 10, 2)
    places.clear()
    await setup.task.sync(["offsets"])
    assert other._syncer.places.recorded() == []
