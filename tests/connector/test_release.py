"""What of a release is sent at once, and what is left to be sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.connector.release import Release
from replicator.routing.parked import Parked, Place
from replicator.routing.queue_map import Queue
from replicator.routing.release_plan import ReleasePlan

QUEUE = Queue("a", 0)


def overdue(number: int) -> Parked:
    return Parked(
        id=str(number),
        kind="delay",
        topic="orders",
        queue=QUEUE,
        due=number,
        unique=b"",
        fingerprint=b"",
        rolled=0,
        parked_at=0,
        place=Place("parked", QUEUE, number),
    )


async def test_what_is_not_sent_in_a_moment_when_nothing_may_be_is_sent_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would be lost, with all counted as released."""
    store = SimpleNamespace(is_mapped=lambda *_: True, queue_map=lambda *_: {QUEUE: Queue("x", 0)})
    context: Any = SimpleNamespace(store=store, unleased=SimpleNamespace(refresh=_nothing))
    release, sent, allowed = Release("route", context, lambda _: True), [], iter([True, False])

    async def send(parked: Parked) -> None:
        sent.append(parked.id)

    async def timer(_: str) -> int:
        return 0

    monkeypatch.setattr(release, "_now", send)
    monkeypatch.setattr(release, "_timer", timer)
    await release.begin(
        ReleasePlan(release=[overdue(number) for number in range(1, 5)]), lambda: next(allowed, True)
    )
    assert sent == ["1"]
    await release.go_on(lambda: True)
    assert sent == ["1", "2", "3", "4"]


async def _nothing() -> None:
    return None
