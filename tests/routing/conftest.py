"""What unit tests of a pair of tasks share: its surroundings, without any network."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.routing import dispatch_barrier
from replicator.routing.dispatch_barrier import DispatchBarrier
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.recovery_slots import RecoverySlots
from replicator.routing.shared import Shared
from replicator.routing.waiting_queues import WaitingQueues


@pytest.fixture
def nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker shows all that it has."""

    async def all_of_it(_broker: object) -> tuple[int, int]:
        return 1, 0

    async def no_limit(_broker: object) -> None:
        return None

    monkeypatch.setattr(dispatch_barrier, "dispatched", all_of_it)
    monkeypatch.setattr(dispatch_barrier, "confirmed", no_limit)


@pytest.fixture
def make_shared() -> Callable[..., Shared]:
    """What a pair needs to recover; all brokers are `broker`, `options` are the route's."""

    def make(*, broker: Any = None, **options: Any) -> Shared:
        broker = broker or SimpleNamespace(address="target:10911")
        connection = object()

        async def connected() -> object:
            return connection

        writer = SimpleNamespace(address="target:10909", connection=connected)
        cluster = SimpleNamespace(
            master=lambda _: broker, reader=lambda _: broker, writer=lambda _: writer, is_proxy=False
        )
        given: dict[str, Any] = dict.fromkeys(Shared.__dataclass_fields__)
        given |= {
            "source": cluster,
            "target": cluster,
            "recovering": RecoverySlots(),
            "barrier": DispatchBarrier(),
            "waiting": WaitingQueues(),
            "hears_other_secret": lambda: False,
        }
        options = {"settle_timeout": 0.0} | options
        given["options"] = RouteOptions(identity=Identity("s", "t"), **options)
        return Shared(**given)

    return make
