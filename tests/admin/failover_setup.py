"""A route that is failed over, in a worker without clusters."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

from replicator.admin import failover as under_test
from replicator.admin.topic_lag import topic_lags
from replicator.connector.context import ConnectorContext
from replicator.connector.route import Route
from replicator.errors import Unreachable
from replicator.routing.options import Identity
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import Queue
from replicator.routing.selector import TopicSelector
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connector, State
from replicator.state.record_types import fit
from replicator.state.shared_state import SharedState
from replicator.worker.worker import Worker
from tests.metadata.test_syncer import copying

__all__ = ["TOPICS", "Reader", "Setup"]

TOPICS = 300


class Reader(str):
    """A broker, by its name, that is asked each time."""

    address = "b:1"

    def refuse_pause(self) -> None: ...


class Setup:
    """A route of many topics, each with a queue on `alive`, where nothing is missing, and one on `dead`.

    `told` is what happened, in order.
    """

    def __init__(self) -> None:
        self.told: list[str] = []
        self.audited: list[tuple[str, dict[str, Any]]] = []
        self.rebuilt: Any = None
        self.state_of_group = SharedState("w1")
        self.kept: dict[str, Any] = {}
        self.late: set[tuple[str, str, Queue]] = set()
        self.state: str = State.RUNNING
        self.settings = RouteSettings()
        self.asked = 0
        queues = {Queue(broker, 0): Queue("x", 0) for broker in ("alive", "dead")}
        plans = [TopicPlan(topic=f"T{i}", target_topic=f"T{i}", queue_map=queues) for i in range(TOPICS)]
        self.source: Any = SimpleNamespace(
            reader=Reader, brokers=dict, is_master=lambda *_: True, is_proxy=False, refresh=AsyncMock()
        )
        self.context: Any = SimpleNamespace(
            source=SimpleNamespace(topics={}, cluster=self.source),
            target=SimpleNamespace(cluster=SimpleNamespace(refresh=AsyncMock(), is_proxy=True)),
            identity=Identity("e", "w"),
            settle_timeout=1.0,
            store=SimpleNamespace(begins_late=lambda *place: place in self.late),
            audit=SimpleNamespace(note_change=lambda what, *_, **told: self.audited.append((what, told))),
        )
        self.sync: Any = SimpleNamespace(
            copied=SimpleNamespace(snapshot=lambda _concerns=None: copying(plans, {})),
            hand_over=self.hand_over,
            places=self.places,
            synced_offsets=lambda _: {"at": 12.5, "groups": [{"group": "readers", "queues": 8}]},
            in_flight_problems=[],
            ledger=SimpleNamespace(get=lambda what: self.kept.get(what, {}), put=self.keep),
        )
        self.route: Any = SimpleNamespace(
            name="route",
            topics=SimpleNamespace(plans=plans, of_users=plans, parked={}, selector=TopicSelector.of([".*"], [])),
            parking=SimpleNamespace(options=lambda options: options),
            problems={},
            keep=AsyncMock(),
            sync=self.sync,
            settings=self.settings,
        )
        self.worker: Any = SimpleNamespace(
            id="w1",
            identity=SimpleNamespace(source="east", target="west"),
            group=SimpleNamespace(incarnation="this process"),
            switching=set(),
            mirror=None,
            others={},
            context=self.context,
            store=SimpleNamespace(state=self.state_of_group, put=self.state_of_group.put),
            routes=SimpleNamespace(get=lambda _: self.rebuilt),
            may_send=lambda: True,
            changed=self.changed,
            connectors=SimpleNamespace(
                get=self.get,
                all=lambda: {"route": self.get("route")},
                set_state=self.set_state,
                fail_over=self.fail_over,
                update=self.update,
            ),
            refresher=SimpleNamespace(refresh=self.changed, problems=[]),
            seen_at_target={},
            sees_others=True,
            settings=SimpleNamespace(heartbeat_interval=0.001, session_timeout=0.1),
            coordinator=SimpleNamespace(
                running=set(),
                membership=SimpleNamespace(others={}),
                assignment=SimpleNamespace(owners={}),
                adopted=True,
            ),
        )

    def keep(self, what: str, value: dict[str, Any]) -> None:
        """As others take it: only what is of the record's form."""
        fit("sync", f"route/{what}", [1, "w"], value, now=time.time())
        self.kept[what] = value

    def get(self, name: str) -> Any:
        return SimpleNamespace(name=name, settings=self.settings, state=self.state)

    def fail_over(self, name: str, at: int, *, alone: bool) -> None:
        assert at > 10**12
        self.set_state(name, "STOPPED", alone=alone)

    def set_state(self, _name: str, state: str, *, alone: bool = False, reason: str = "") -> None:
        self.state = State(state)
        self.told.append(f"{state} alone" if alone else str(state))

    def update(self, _name: str, config: dict[str, Any]) -> None:
        self.told.append(f"without {config['exclude_topics']}")

    async def hand_over(self, *, dry_run: bool = False, **_how: Any) -> tuple[list[Any], list[str]]:
        self.told.append("would hand over" if dry_run else "handed over")
        return [], []

    async def places(self) -> list[Any]:
        return []

    async def changed(self) -> None: ...

    async def end(self, broker: str, _topic: str, _queue: int) -> int:
        self.told.append("asked")
        if broker == "dead":
            self.asked += 1
            await asyncio.sleep(0)  # until the attempt to reach it has failed
            raise Unreachable(broker, "dead")
        return 0

    async def switch(self, **how: Any) -> dict[str, Any]:
        return await under_test.failover(
            cast("Worker", self.worker),
            cast("Connector", self.get("route")),
            cast("Route", self.route),
            under_test.FailoverOptions(drain_timeout=0, **how),
        )

    async def lags(self, **how: Any) -> list[str]:
        found = await topic_lags(cast("Route", self.route), cast("ConnectorContext", self.context), **how)
        assert [each["topic"] for each in found] == [f"T{i}" for i in range(TOPICS)]
        return [each["problem"] for each in found]
