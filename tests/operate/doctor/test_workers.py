"""What is said of workers that are heard."""

from __future__ import annotations

from replicator.operate.doctor.finding import Finding, Level
from replicator.operate.doctor.workers import Beat, judge_workers

ORDERS = frozenset({"orders"})


def judged(*heard: Beat, others: tuple[Beat, ...] = ()) -> list[Finding]:
    return [*judge_workers("east-west", heard, others, ORDERS)]


def test_nobody() -> None:
    assert [each.message for each in judged()] == ["no worker runs: the first one begins it"]


def test_the_own_group() -> None:
    found = judged(Beat("east-west", "w2", ORDERS), Beat("east-west", "w1", ORDERS), Beat("other", "w3", ORDERS))
    assert [each.message for each in found] == ["workers that run: w1, w2; another one joins them"]


def test_another_secret() -> None:
    found = judged(Beat("east-west", "w1", ORDERS, proved=False))
    assert [each.level for each in found] == [Level.OK, Level.ERROR]
    assert "the same secret on all workers" in found[1].advice


def test_another_group_on_the_same_route() -> None:
    """It is worst where it copies the same topics."""
    _, found = judged(others=(Beat("theirs", "w1", ORDERS), Beat("theirs", "w2", frozenset())))
    assert (found.level, found.subject) == (Level.ERROR, "theirs")
    assert "it copies orders between the same clusters" in found.message
    assert "(w1, w2)" in found.message
    _, found = judged(others=(Beat("theirs", "w1", frozenset({"payments"})),))
    assert found.level is Level.WARNING


def test_jobs_beside_the_group() -> None:
    _, found = judged(Beat("east-west/jobs", "backfill-1", frozenset()))
    assert found.message.startswith("Spark jobs that run: backfill-1")


def test_a_worker_alone() -> None:
    """Others on the same route matter to it all the same."""
    found = [*judge_workers("", [Beat("east-west", "w1", ORDERS)], [Beat("theirs", "w2", ORDERS)], ORDERS)]
    assert [(each.level, each.subject) for each in found] == [(Level.OK, "standalone"), (Level.ERROR, "theirs")]
