"""Where groups whose POP consumers hold messages are after a failover, and what is said of it before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.client.groups import GroupTable
from replicator.client.topics import TopicConfig
from replicator.connector.sync import redelivery as module
from replicator.connector.sync.redelivery import Redelivery
from replicator.connector.sync.retry_rights import Denial
from replicator.connector.sync.retry_topic import Missing, Unsuitable
from replicator.errors import ReplicatorError, Unreachable
from replicator.metadata.group_positions import GroupPositions
from replicator.metadata.offsets import CopiedQueue, GroupQueue, plan_offsets
from replicator.metadata.pop_checkpoints import Held
from replicator.metadata.redelivery_plan import HeldCopy
from replicator.metadata.target_consumers import GroupConsumers
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.queue_map import Queue

SETTINGS = {"reviveQueueNum": "8", "timerWheelEnable": "true"}


class Scene:
    """A group in queues of a topic, each with 10 copies, and the broker `x` of the target.

    `put` is what its retry topic has, by source queue and offset; `fails` is what goes wrong there, and nothing of
    the queue `unsuitable` can be put there.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.put: dict[tuple[str, int], int] = {}
        self.fails: Exception | None = None
        self.unsuitable: Queue | None = None
        self.table = GroupTable({"G": {}}, {}, (), modes={})
        self.asked = 0
        monkeypatch.setattr(module, "RetryTopic", partial(Topic, self))
        monkeypatch.setattr(module, "read_settings", self._settings)
        monkeypatch.setattr(module, "read_groups", self._groups)
        cluster = SimpleNamespace(master=lambda broker: broker, account="")
        self.topics: dict[str, dict[str, TopicConfig]] = {}
        source, target = SimpleNamespace(topics=self.topics), SimpleNamespace(cluster=cluster, topics={})
        context: Any = SimpleNamespace(source=source, target=target, settle_timeout=0.0)
        positions: Any = SimpleNamespace(past_what_is_held=self._past, there=SimpleNamespace(tables={}))
        self.redelivery = Redelivery("route", context, cast("GroupPositions", positions))

    async def _settings(self, _: str) -> dict[str, str]:
        self.asked += 1
        return SETTINGS

    async def _groups(self, _: str) -> GroupTable:
        return self.table

    async def _past(self, place: GroupQueue) -> GroupQueue:
        assert place.delivered is not None
        return replace(place, source=place.delivered, acknowledged_after=0)

    async def fail_over(self, *places: GroupQueue, **more: Any) -> list[GroupQueue]:
        given: dict[str, Any] = {"consumers": {}, "may_go_on": lambda: True, **more}
        consumers = given.pop("consumers")
        return await self.redelivery.carry_out(list(places), consumers, **given)


class Topic:
    """The retry topic of a scene."""

    def __init__(self, scene: Scene, _: object, group: str, broker: str, name: str) -> None:
        self.group, self.broker, self.name = group, broker, name
        self._scene = scene

    async def read(self, since: int) -> None:
        assert since == 5000

    async def missing(self, place: GroupQueue, copies: list[HeldCopy]) -> list[Missing]:
        source = place.queue.source
        if source == self._scene.unsuitable:
            raise Unsuitable("it has no body")
        return [Missing(place, copy) for copy in copies if (str(source), copy.source) not in self._scene.put]

    async def prepare(self, _groups: GroupTable, _offsets: object) -> None: ...

    async def put(self, missing: list[Missing], may_go_on: Callable[[], bool]) -> None:
        assert may_go_on()
        if self._scene.fails:
            raise self._scene.fails
        for place, copy in missing:
            at = (str(place.queue.source), copy.source)
            self._scene.put[at] = self._scene.put.get(at, 0) + 1


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def at(queue: int, *held: int, there: int | None = 100) -> GroupQueue:
    """The group before what it holds of 8 messages that it was delivered of a queue."""
    copied = CopiedQueue(
        Queue("a", queue), Queue("x", queue), "T", 10, 0, OffsetMap([Interval(0, 100, 10)]), floor=100
    )
    place = GroupQueue("G", "T", copied, min(held, default=8), there)
    if not held:
        return place
    return replace(
        place,
        in_flight=len(held),
        acknowledged_after=8 - min(held) - len(held),
        delivered=8,
        held=tuple(Held(offset, 5000) for offset in held),
    )


def committed(places: list[GroupQueue]) -> list[int]:
    return [action.write.offset for action in plan_offsets(places, live=())]  # type: ignore[union-attr]


async def test_the_group_goes_on_behind_all_that_it_was_delivered(scene: Scene) -> None:
    """Once what it holds is in its retry topic; where nothing is held it is where it was."""
    found = await scene.fail_over(at(0, 2, 5), at(1), at(2, 7))
    assert committed(found) == [108, 108, 108]
    assert scene.put == {("a/0", 2): 1, ("a/0", 5): 1, ("a/2", 7): 1}
    assert [(each.to_retry_topic, each.acknowledged_after) for each in found] == [(2, 0), (0, 0), (1, 0)]
    assert (scene.redelivery.problems, scene.asked) == ([], 1)


async def test_what_fails_leaves_it_before_what_it_holds(scene: Scene) -> None:
    scene.fails = Unreachable("x:1", "refused")
    found = await scene.fail_over(at(0, 2, 5), at(1))
    assert committed(found) == [102, 108]
    assert [each.to_retry_topic for each in found] == [0, 0]
    assert "refused" in found[0].held_back_by
    (problem,) = scene.redelivery.problems
    assert problem.startswith("group G at x would start before what its POP consumers hold")
    scene.fails = None
    assert committed(await scene.fail_over(at(0, 2, 5), at(1))) == [108, 108]
    assert scene.redelivery.problems == []


async def test_a_message_that_cannot_be_put_concerns_its_queue_alone(scene: Scene) -> None:
    scene.unsuitable = Queue("a", 1)
    found = await scene.fail_over(at(0, 2, 5), at(1, 3))
    assert committed(found) == [108, 103]
    assert found[1].held_back_by == "it has no body"
    assert scene.redelivery.problems == []
    # And the report, which looks at places once more, says so, too.
    put, left = await scene.redelivery.forecast([at(0, 2, 5, there=108), at(1, 3, there=103)])
    assert (put.to_retry_topic, left.to_retry_topic, left.held_back_by) == (2, 0, "it has no body")


@pytest.mark.parametrize(
    ("consumers", "why"),
    [
        (GroupConsumers(live=True), "it has consumers at the target"),
        (GroupConsumers(unknown={"x": "away"}), "is not known"),
    ],
)
async def test_under_consumers_nothing_is_put(scene: Scene, consumers: GroupConsumers, why: str) -> None:
    """Their group is not moved, so they read it in its queue."""
    found = await scene.fail_over(at(0, 2, 5), consumers={"G": consumers})
    assert (committed(found), scene.put) == ([102], {})
    assert why in found[0].held_back_by


async def test_a_target_that_knows_no_pop(scene: Scene) -> None:
    scene.table = GroupTable({"G": {}}, {}, ())
    (found,) = await scene.redelivery.forecast([at(0, 2, 5)])
    assert (found.to_retry_topic, found.acknowledged_after) == (0, 4)
    assert committed(await scene.fail_over(at(0, 2, 5))) == [102]


async def test_a_topic_whose_messages_have_priorities(scene: Scene) -> None:
    attributes = {"message.type": "PRIORITY"}
    scene.topics["a"] = {"T": TopicConfig(name="T", read_queues=1, write_queues=1, attributes=attributes)}
    (found,) = await scene.redelivery.forecast([at(0, 2, 5)])
    assert (found.to_retry_topic, found.acknowledged_after) == (0, 4)
    assert "priorities" in found.held_back_by


async def test_a_broker_that_does_not_answer(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: str) -> None:
        raise Unreachable("x:1", "refused")

    monkeypatch.setattr(module, "read_settings", away)
    (found,) = await scene.fail_over(at(0, 2, 5))
    assert "refused" in found.held_back_by


async def test_what_a_failover_would_do(scene: Scene) -> None:
    """Before it: the group is where every sync has it."""
    (found,) = await scene.redelivery.forecast([at(0, 2, 5)])
    assert (found.to_retry_topic, found.acknowledged_after, found.source) == (2, 0, 2)
    (dry,) = await scene.fail_over(at(0, 2, 5), dry_run=True)
    assert (dry.to_retry_topic, dry.source, scene.put) == (2, 8, {})


async def test_after_it_the_group_misses_nothing(scene: Scene) -> None:
    """It is behind what it holds at the source; as long as nothing else is held there."""
    await scene.fail_over(at(0, 2, 5))
    (found,) = await scene.redelivery.forecast([at(0, 2, 5, there=108)])
    assert (found.source, found.to_retry_topic) == (8, 2)
    (other,) = await scene.redelivery.forecast([at(0, 2, 4, there=108)])
    assert other.source == 2


async def test_a_bug_is_none_of_its_business(scene: Scene) -> None:
    """Only what brokers say is a reason to go on as before."""
    scene.fails = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug"):
        await scene.fail_over(at(0, 2, 5))
    scene.fails = ReplicatorError("the route does not stand still any more")
    assert committed(await scene.fail_over(at(0, 2, 5))) == [102]


async def test_what_the_account_may_not_is_said_before(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for a group, which stays before what it holds; a rehearsal says the same."""

    async def denied(_context: object, broker: str, name: str) -> Denial:
        assert (broker, name) == ("x", "%RETRY%G_T")
        return Denial("it may not", "type this")

    monkeypatch.setattr(module, "why_not_made", denied)
    found = await scene.redelivery.forecast([at(0, 2, 5), at(1, 3), at(2)])
    assert [each.held_back_by for each in found] == ["it may not; type this", "it may not; type this", ""]
    said = "group G at x could not be given what its POP consumers hold: it may not; type this"
    assert scene.redelivery.denied == [said]
    (again,) = await scene.fail_over(at(0, 2, 5), dry_run=True)
    assert again.held_back_by == found[0].held_back_by
    assert scene.redelivery.problems == [said]
