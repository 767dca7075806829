"""What is shown of brokers that are gone, and of those that are about to be given up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.admin.brokers import known_brokers
from replicator.state.known_brokers import key_of, record_value
from replicator.state.record import Kind
from tests.support.page import PagedWorker, paged_worker


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagedWorker]:
    with paged_worker(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("record", "state"),
    [(None, "AWAY"), (record_value(None, {"route": "RUNNING"}), "AWAY"), (record_value(5.0, {}), "FORGOTTEN")],
    ids=["nobody decided", "interrupted", "decided"],
)
async def test_a_removal_that_was_interrupted_has_not_happened(
    paged: PagedWorker, record: dict[str, Any] | None, state: str
) -> None:
    """Its queues are still waited for."""

    async def refresh() -> Any:
        return SimpleNamespace(brokers={})

    cluster = SimpleNamespace(refresh=refresh, brokers=lambda: {"east-a": 0, "west-a": 0})
    side = SimpleNamespace(cluster=cluster, masters=set())
    worker: Any = paged.worker
    worker.context = SimpleNamespace(source=side, target=side)
    if record is not None:
        paged.store.put(Kind.BROKER, key_of("target", "west-a"), record)
    (found,) = [
        each for each in await known_brokers(worker) if (each["side"], each["broker"]) == ("target", "west-a")
    ]
    assert (found["state"], found["forgotten_at"]) == (state, record["forgotten_at"] if record else None)
