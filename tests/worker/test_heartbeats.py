"""Each heartbeat has what was reported for it, as it is at that moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from replicator.worker.heartbeats import Heartbeats


class FakeGroup:
    """Keeps what it was given to write."""

    def __init__(self) -> None:
        self.waiting_for = "a job"
        membership = SimpleNamespace(others={"w9": None, "w1": None})
        self.coordinator = SimpleNamespace(me="w5", membership=membership)
        self.written: list[tuple[dict[str, Any], bool]] = []

    async def beat(self, info: dict[str, Any], *, target_reachable: bool) -> None:
        self.written.append((info, target_reachable))


async def test_heartbeats_have_what_is_reported() -> None:
    group, probe, tasks = FakeGroup(), SimpleNamespace(reachable=True), {"route/a": "running"}
    heartbeats = Heartbeats(group, None, probe, source="east", rest_address="host:1")  # type: ignore[arg-type]
    heartbeats.report("tasks", lambda: dict(tasks))
    await heartbeats.beat()
    tasks["route/b"] = "starting"
    probe.reachable = False
    await heartbeats.beat()
    (first, reached), (second, lost) = group.written
    assert (first["rest"], first["waiting_for"], first["view"]) == ("host:1", "a job", ["w1", "w5", "w9"])
    assert first["tasks"] == {"route/a": "running"}
    assert second["tasks"] == {"route/a": "running", "route/b": "starting"}
    assert (reached, lost) == (True, False)
