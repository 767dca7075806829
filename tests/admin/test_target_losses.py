"""A target broker that does not answer is one line, however many queues are there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.admin.target_losses import TARGET_LOSS, target_losses
from replicator.errors import Unreachable
from replicator.routing.queue_map import Queue

WHY = "whether the target still has what was copied is not known: w:1 cannot be reached (it hangs)"


def copied_to(brokers: dict[str, str], *topics: str, queues: int) -> Any:
    """Each topic from the same brokers to those that they are mapped to."""
    maps = {Queue(a, n): Queue(b, n) for a, b in brokers.items() for n in range(queues)}
    return SimpleNamespace(
        plans=[SimpleNamespace(topic=topic, queue_map=maps) for topic in topics],
        queue=lambda topic, queue: SimpleNamespace(
            target=maps[queue], target_topic=topic, offsets=SimpleNamespace(last=(1, 1))
        ),
    )


async def lost(copy: Any) -> list[str]:
    def master(_broker: str) -> None:
        raise Unreachable("w:1", "it hangs")

    context = SimpleNamespace(target=SimpleNamespace(cluster=SimpleNamespace(master=master)))
    return await target_losses(copy, cast("Any", context))


@pytest.mark.parametrize(
    ("topics", "queues", "what"),
    [
        (("orders",), 1, "queue orders/east-a/0"),
        (("orders",), 8, "queues of orders at west-a, 8 of them"),
        (("orders", "bills"), 4, "queues of bills, orders at west-a, 8 of them"),
        (("a", "b", "c", "d", "e"), 2, "queues of a, b, c, 2 more topics at west-a, 10 of them"),
    ],
)
async def test_one_line_for_all_queues_of_a_broker(topics: tuple[str, ...], queues: int, what: str) -> None:
    (line,) = await lost(copied_to({"east-a": "west-a"}, *topics, queues=queues))
    assert line == f"{what}: {WHY}"
    assert line.startswith(TARGET_LOSS)


async def test_each_broker_has_its_line() -> None:
    lines = await lost(copied_to({"east-a": "west-a", "east-b": "west-b"}, "orders", queues=2))
    assert lines == [f"queues of orders at {broker}, 2 of them: {WHY}" for broker in ("west-a", "west-b")]
