"""Changes of connectors that people ask for, once no rebalance is under way, published to the group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from replicator.admin.broker_removal import leave_as_it_is
from replicator.admin.failover_turn import NotNow, decided_by_hand, refuse_failover
from replicator.admin.group_view import GroupView
from replicator.connector.sync.ledger import SyncLedger
from replicator.connector.topics import RouteTopics
from replicator.errors import ConfigError, ReplicatorError
from replicator.plugins.registry import PluginConfig
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connector, State, Unknown
from replicator.worker.worker import Worker

__all__ = [
    "Rebalancing",
    "change",
    "rates_of",
    "refuse_rivals",
    "restart_task",
    "set_rates",
    "set_state",
    "set_states",
    "task_of",
]

#: Seconds that a change waits for a rebalance to end before it is refused.
_PATIENCE: Final = 3.0


class Rebalancing(ReplicatorError):
    """A rebalance is under way; changes have to wait."""


async def change(worker: Worker, do: Callable[[], Connector | None]) -> Connector | None:
    """Makes a change once no rebalance is under way, and publishes it to the group.

    Raises:
        Rebalancing: one is under way, and does not end in time.
        Unreachable: the change could not be published; it is retried.
    """
    deadline = asyncio.get_running_loop().time() + _PATIENCE
    while worker.coordinator.changing_hands:
        if asyncio.get_running_loop().time() > deadline:
            raise Rebalancing("a rebalance is under way", hint="try again in a second")
        await asyncio.sleep(0.05)
    changed = do()
    await worker.changed()
    return changed


async def set_state(worker: Worker, name: str, state: State) -> None:
    """Lets a connector run, pause or stop; errors also as `change`.

    Raises:
        Unknown: there is none.
        ConfigError: it may not run beside another one.
        NotNow: it may not run while a failover of it is going on.
    """
    if state is State.RUNNING:
        refuse_rivals(worker, name, worker.connectors.get(name).settings)
    await change(worker, lambda: _decide(worker, name, state))


async def set_states(worker: Worker, state: State) -> tuple[list[str], list[str]]:
    """Lets all connectors run, pause or stop in one change, those that may; errors also as `change`.

    Returns:
        the connectors that are as asked for, and why each of the others is not.
    """
    done, refused = list[str](), list[str]()

    def decide() -> None:
        for name, connector in worker.connectors.all().items():
            try:
                _decide_for_all(worker, connector, state)
            except (ConfigError, NotNow) as error:
                refused.append(f"connector {name} was not resumed, all others were: {error}")
            else:
                done.append(name)

    await change(worker, decide)
    return done, refused


def _decide_for_all(worker: Worker, connector: Connector, state: State) -> None:
    if state is State.RUNNING:
        if connector.state is state:
            return  # nothing is decided about one that runs
        refuse_rivals(worker, connector.name, connector.settings)
    _decide(worker, connector.name, state)


def _decide(worker: Worker, name: str, state: State) -> Connector:
    if state is State.RUNNING:  # it would copy to topics that applications write to by then
        refuse_failover(worker, name)
    changed = worker.connectors.set_state(name, state)
    decided_by_hand(SyncLedger(name, worker.store))
    leave_as_it_is(worker.store, name)
    return changed


def refuse_rivals(worker: Worker, name: str, settings: RouteSettings | PluginConfig) -> None:
    """Checks that no other connector makes the same copies as the connector `name` would with `settings`.

    Raises:
        ConfigError: another connector copies some of its topics to the same names; all of them, one a line.
    """
    if isinstance(settings, RouteSettings):
        RouteTopics(name, settings, worker.context).refuse_rivals()


async def restart_task(worker: Worker, name: str, task: str) -> dict[str, Any]:
    """Restarts one task, on whichever worker it runs; errors also as `change`.

    Returns:
        the task, as `GroupView.tasks` has it.

    Raises:
        Unknown: there is no such connector or task.
    """
    task_of(worker, name, task)
    await change(worker, lambda: worker.connectors.restart_task(name, task))
    return task_of(worker, name, task)


def task_of(worker: Worker, name: str, task: str) -> dict[str, Any]:
    """One task of a connector.

    Raises:
        Unknown: there is no such connector or task.
    """
    tasks = GroupView(worker).tasks(worker.connectors.get(name))
    for found in tasks:
        if found["id"] == task:
            return found
    names = ", ".join(each["id"] for each in tasks[:10]) or "none"
    raise Unknown(f"connector {name!r} has no task {task!r}", hint=f"it has: {names}")


def rates_of(worker: Worker, name: str) -> dict[str, int]:
    """The rate limits of a route, over all workers, per second; 0 is no limit.

    Raises:
        Unknown: there is no such connector, or it is not a route.
    """
    route = worker.connectors.get(name).settings
    if not isinstance(route, RouteSettings):
        raise Unknown(f"connector {name!r} has no rates", hint="only routing connectors have them")
    return {"rate_messages": route.rate_messages, "rate_bytes": route.rate_bytes}


async def set_rates(worker: Worker, name: str, *, rate_messages: int, rate_bytes: int) -> dict[str, int]:
    """Changes the rate limits of a route; its tasks are not restarted. Errors also as `change`.

    Raises:
        Unknown: there is no such connector, or it is not a route.
        ConfigError: these are negative.
    """
    rates = {"rate_messages": rate_messages, "rate_bytes": rate_bytes}

    def decide() -> Connector:
        rates_of(worker, name)  # `change` may have waited: whether it is still there, and a route
        return worker.connectors.update(name, worker.connectors.get(name).config | rates)

    await change(worker, decide)
    return rates
