"""What a worker knows and says of a target that does not answer."""

from __future__ import annotations

from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from replicator.errors import Unreachable
from replicator.worker import target_probe
from replicator.worker.target_probe import TargetProbe


class FakeCluster:
    """Its brokers are their own endpoints."""

    def __init__(self, *brokers: str) -> None:
        self.names = brokers

    def brokers(self) -> tuple[str, ...]:
        return self.names

    def master(self, broker: str) -> str:
        return broker


async def test_the_log_says_why_and_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each; one broker that answers is enough."""
    down = {"a"}

    async def read_config(broker: str) -> None:
        if broker in down:
            raise Unreachable(broker, "it stopped responding")

    monkeypatch.setattr(target_probe, "read_config", read_config)
    probe = TargetProbe(cast("Any", FakeCluster("a", "b")))
    with capture_logs() as logs:
        await probe.probe()
        assert probe.reachable
        down.add("b")
        await probe.probe()
        await probe.probe()
        assert not probe.reachable
        down.discard("a")
        await probe.probe()
        assert probe.reachable
    reason = "a: a cannot be reached (it stopped responding), b: b cannot be reached (it stopped responding)"
    assert logs == [
        {
            "module": "worker.target_probe",
            "log_level": "warning",
            "event": "target cannot be reached",
            "reason": reason,
        },
        {"module": "worker.target_probe", "log_level": "info", "event": "target can be reached again"},
    ]


async def test_a_target_without_a_master(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = TargetProbe(cast("Any", FakeCluster()))
    with capture_logs() as logs:
        await probe.probe()
    assert [each["reason"] for each in logs] == ["it has no broker with a master"]
