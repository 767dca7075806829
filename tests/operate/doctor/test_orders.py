"""What is said of order configurations: what a sync writes, and what has to be done manually."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.client.order import OrderTables
from replicator.errors import Unreachable
from replicator.operate.doctor.finding import Finding, Level
from replicator.operate.doctor.orders import examine_orders, judge_orders
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings

APART = {Queue(broker, i): Queue(other, i) for broker, other in ("ax", "by") for i in range(4)}
PLAN = TopicPlan(topic="T", target_topic="copy-of-T", queue_map=APART)


def tables(topic: str, *values: str) -> OrderTables:
    """Of the name servers n:1, n:2, …"""
    return OrderTables(
        {f"n:{number}": {topic: value} if value else {} for number, value in enumerate(values, 1)}, {}
    )


def judged(ours: str, *theirs: str, syncs: bool = True, repairs: bool = False) -> list[Finding]:
    source, target = tables("T", ours), tables("copy-of-T", *theirs)
    return [*judge_orders([PLAN], source, target, syncs=syncs, repairs=repairs)]


def test_one_that_the_sync_writes() -> None:
    (found,) = judged("a:4;b:4", "", "x:4;y:4")
    assert (found.level, found.subject) == (Level.OK, "copy-of-T")
    assert found.message == (
        "the source's name servers have 'a:4;b:4'; of the target's n:1 has none:"
        " the sync of topics writes 'x:4;y:4'"
    )
    (found,) = judged("a:4", "x:1", "", repairs=True)
    assert (found.level, "n:1 has 'x:1'; n:2 has none: the sync" in found.message) == (Level.OK, True)


def test_one_that_nobody_writes() -> None:
    """Topics are not synced."""
    (found,) = judged("a:4;b:4", "", "x:1", syncs=False)
    assert (found.level, found.subject) == (Level.WARNING, "T")
    assert "n:1 has none; n:2 has 'x:1': without topics in sync it is not copied" in found.message
    assert found.advice.endswith("mqadmin updateOrderConf -n 'n:1;n:2' -m put -t copy-of-T -v 'x:4;y:4'")


@pytest.mark.parametrize("syncs", [False, True])
def test_one_that_is_there(syncs: bool) -> None:
    (found,) = judged("a:4;b:4", "x:4;y:4", "x:4; y:4;", syncs=syncs)
    assert (found.level, found.message) == (Level.OK, "the target's name servers have it: x:4;y:4")
    assert judged("", "x:4", syncs=syncs) == []


def test_another_one_that_is_there() -> None:
    """The order of the brokers matters: producers count the queues in it."""
    (found,) = judged("a:4;b:4", "y:4;x:4", "")
    assert (found.level, found.subject) == (Level.WARNING, "T")
    assert "n:1 has 'y:4;x:4'; n:2 has none: it existed at the target before" in found.message
    assert found.advice == "make them equal, or set on_drift=repair"


@pytest.mark.parametrize("syncs", [False, True])
@pytest.mark.parametrize(
    ("ours", "advice"), [("nonsense", "correct it there"), ("a:²", "correct it there"), ("gone:4", "take them out")]
)
def test_one_that_cannot_be_carried_over(ours: str, advice: str, syncs: bool) -> None:
    """There is no command that would be right."""
    (found,) = judged(ours, "", syncs=syncs)
    assert found.level is Level.WARNING
    assert advice in found.advice
    assert "-m put" not in found.advice


@pytest.mark.parametrize(
    ("target", "level"),
    [
        (tables("copy-of-T", ""), Level.OK),
        (OrderTables({}, {"n:1": "n:1 is away"}), Level.NOT_CHECKED),
        (Unreachable("http://addresses", "away"), Level.NOT_CHECKED),
        (OrderTables({"n:1": {}}, {"n:2": "n:2 is away"}), Level.OK),
    ],
)
async def test_clusters_that_are_asked(target: Any, level: Level) -> None:
    async def orders(answer: Any) -> OrderTables:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def side(answer: Any) -> Any:
        return SimpleNamespace(cluster=SimpleNamespace(orders=lambda: orders(answer), is_proxy=False))

    context: Any = SimpleNamespace(source=side(tables("T", "a:4")), target=side(target))
    (found,) = await examine_orders([PLAN], context, RouteSettings())
    assert found.level is level
    assert ("away" in found.message) == (level is Level.NOT_CHECKED)
    context = SimpleNamespace(source=side(tables("T", "a:4")), target=side(tables("copy-of-T", "")))
    (found,) = await examine_orders([PLAN], context, RouteSettings(sync=["pending"]))
    assert found.level is Level.WARNING
