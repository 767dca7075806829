"""What waits in the source's brokers is named by topic and kind, and not by what readiness says of the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.javatool import Order, java_produce
from tests.support.readiness import asked
from tests.support.stores import TIMERS, TRANSACTIONS
from tests.support.traffic import create_topic
from tests.support.worker import SYNC_QUICKLY, Worker, until

pytestmark = pytest.mark.timeout(300)

#: How problems end that some of these brokers have.
_UNKNOWN = ("(so with brokers of 5.1)", "it keeps them in RocksDB")


@pytest.mark.parametrize(
    ("version", "timers", "kept"),
    [
        *(("4.9.7", False, {}), ("5.1.4", True, {}), ("5.3.3", True, {}), ("5.5.0", True, {})),
        *(("5.5.0", True, TIMERS), ("5.5.0", True, TRANSACTIONS)),
    ],
    ids=["4.9.7", "5.1.4", "5.3.3", "5.5.0", "timers in RocksDB", "transactions in RocksDB"],
)
async def test_delayed_messages_and_transactions(
    version: str,
    timers: bool,
    kept: Mapping[str, str],
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
) -> None:
    """Delivered, committed and rolled back ones wait no more, and those of other topics are not counted."""
    topic, other = topic_name("t"), topic_name("other")
    source, target = await clusters.pair(
        ClusterSpec(name="east", version=version, properties=kept), ClusterSpec(name="west", version="5.3.3")
    )
    for each in (topic, other):
        await create_topic(source, each, queues=2)
    orders = [order(topic, level=18)] * 40 + [order(other, level=18)] * 3
    orders += [order(topic, level=1)] * 4
    orders += [order(topic, kind=kind) for kind in ("commit", "rollback", "undecided", "undecided")]
    if timers:
        orders += [order(topic, delay_s=7000)] * 20
    await java_produce(source.namesrv, orders)
    hidden = kept is TRANSACTIONS
    expected = (
        {"delay": 40} | ({"timer": 20} if timers else {}) | ({"transaction": 2} if timers and not hidden else {})
    )
    uncounted = 0 if timers else 2  # 4.9.7 shows how many half messages there are, not whose
    ours = ("--topics", topic, "--sync-groups", "of-no-other-test")  # those of other tests may not be ready
    async with Worker(source, target, tmp_path, *ours, *SYNC_QUICKLY) as worker:
        await worker.caught_up(topic, 5)

        async def waiting() -> bool:
            found = await asked(worker, "GET", "readiness")
            known = by_kind(found, topic) == expected and found["pending"]["uncounted"] >= uncounted
            return known and bool(found["ready"])

        await until(waiting, what=f"{expected}, and ready")
        report = await asked(worker, "POST", "failover", {"drain_timeout": 5, "dry_run": True})
        assert by_kind(report, topic) == expected
        assert (report["drained"], report["problems"]) == (True, [])
        lost = await asked(worker, "POST", "failover", {"source_dead": True, "dry_run": True})
        assert lost["pending"]["messages"] == []
        assert "are lost with it" in lost["pending"]["lost"][0]
        for said in (found_problems(await asked(worker, "GET", "readiness")), found_problems(report)):
            assert any("nobody may read its timer" in each for each in said) is (version == "5.1.4")
            assert ("half messages that wait at east-a are not known: it keeps them in RocksDB" in said) is hidden


def order(topic: str, **how: Any) -> Order:
    return Order(topic=topic, body=b"x", **how)


def found_problems(found: dict[str, Any]) -> list[str]:
    problems: list[str] = found["pending"]["problems"]
    return problems


def by_kind(found: dict[str, Any], topic: str) -> dict[str, int]:
    """The counts, after a look at what is not about them."""
    pending = found["pending"]
    assert [each for each in pending["problems"] if not each.endswith(_UNKNOWN)] == []
    assert {each["topic"] for each in pending["messages"]} <= {topic}
    return {each["kind"]: each["messages"] for each in pending["messages"]}
