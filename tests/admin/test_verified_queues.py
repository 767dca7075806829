"""What readiness says of the audit: how far, and what differs, as long as the target still has it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.admin import verified_queues as module
from replicator.admin.verified_queues import differing, verified_topics
from replicator.errors import Unreachable
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from replicator.state.record import Kind
from replicator.state.shared_state import SharedState

MAP = {Queue("a", 0): Queue("x", 3), Queue("a", 1): Queue("x", 4), Queue("a", 2): Queue("x", 5)}
DIFFERENT = {"to": 90, "rules": 0, "verified": 80, "differences": {"body": 2, "missing": 1}}
LATEST = [["body", 7, 70, "x"], ["missing", 8, 80, ""]]


class Setup:
    """A route of one topic of three queues: one differs, one is verified, of one nothing is known."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        state = SharedState()
        for queue, audit in ((0, {**DIFFERENT, "latest": LATEST}), (1, {"to": 50, "rules": 0, "verified": 50})):
            state.put(Kind.POSITION, f"route/T/a/{queue}", {"position": 100, "start": 0, "audit": audit})
        state.put(Kind.POSITION, "route/T/a/2", {"position": 100, "start": 0})
        plans = [TopicPlan(topic="T", target_topic="U", queue_map=MAP)]
        self.route: Any = SimpleNamespace(name="route", topics=SimpleNamespace(of_users=plans))
        cluster = SimpleNamespace(master=lambda broker: broker)
        self.context: Any = SimpleNamespace(
            store=SimpleNamespace(progress=lambda _, key: (state.get(Kind.POSITION, key), None)),
            target=SimpleNamespace(cluster=cluster),
        )
        self.oldest: int | Exception = 0
        monkeypatch.setattr(module, "min_offset", self._min_offset)

    async def _min_offset(self, broker: str, topic: str, queue_id: int) -> int:
        assert (broker, topic, queue_id) == ("x", "U", 3)
        if isinstance(self.oldest, Exception):
            raise self.oldest
        return self.oldest

    async def topic(self) -> dict[str, Any]:
        (found,) = await verified_topics(self.route, self.context)
        return found


async def test_how_far_and_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each queue; the newest difference comes first."""
    found = await Setup(monkeypatch).topic()
    assert found["not_verified"] == 10 + 50
    assert found["differences"] == {"body": 2, "missing": 1}
    assert found["latest"][0] == {"kind": "missing", "source": 8, "queue": "x/3", "target": 80, "detail": ""}
    assert [queue["verified_to"] for queue in found["queues"]] == [90, 50, None]
    (reason,) = differing([found])
    assert reason.startswith("topic T: 3 messages at the target are not as they were sent (2 body, 1 missing)")
    assert reason.endswith("such as source offset 8 at x/3/80")


@pytest.mark.parametrize(
    ("oldest", "there"),
    [(80, True), (81, False), (Unreachable("x", "down"), True)],
    ids=["there", "gone", "unknown"],
)
async def test_what_retention_has_deleted(
    monkeypatch: pytest.MonkeyPatch, oldest: int | Exception, *, there: bool
) -> None:
    """It does not stand against a switch any more."""
    setup = Setup(monkeypatch)
    setup.oldest = oldest
    found = await setup.topic()
    assert bool(found["differences"]) is there
    assert bool(list(differing([found]))) is there
