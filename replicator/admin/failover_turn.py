"""One failover of a connector at a time, in the whole group: two at once would undo what the other has decided.

The group's record `failover` names the process that is at it, as it is known where leases are held and at the
target, what state the connector returns to (`resume`) once some topics are switched, whether some were opened
already, and when the whole connector was stopped (`begun_at`) and failed over. Nobody waits for one that has died.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from replicator.connector.route import Route
from replicator.connector.sync.ledger import SyncLedger
from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger
from replicator.state.connector_configs import State
from replicator.worker.worker import Worker

__all__ = [
    "NotNow",
    "decided_by_hand",
    "failed_over_at",
    "note",
    "refuse_failover",
    "refuse_replaced",
    "stopped_by_failover",
    "taking_turn",
]

#: Seconds between two checks of whether another worker is still at it.
_POLL_INTERVAL: Final = 0.2
#: Session timeouts in which a worker that has died is seen to be gone.
_SESSIONS: Final = 2.0

log = get_logger(__name__)


class NotNow(ReplicatorError):
    """Something cannot be done now; its message says what was left as it is, and its hint how it can be done."""


@asynccontextmanager
async def taking_turn(worker: Worker, route: Route, *, source_dead: bool) -> AsyncIterator[None]:
    """Within it no other worker, once the group knows of it, and nobody else at this one fails `route` over.

    Args:
        source_dead: others are asked for at the target, where they say what they run.

    Raises:
        NotNow: a failover of the connector is going on.
    """
    name, ledger = route.name, route.sync.ledger
    if name in worker.switching:
        raise NotNow(f"a failover of connector {name} is going on already", hint="wait for its end")
    worker.switching.add(name)
    try:
        await _others_end(worker, route, source_dead=source_dead)
        mirror = "" if worker.mirror is None else worker.mirror.incarnation
        note(ledger, by=worker.id, incarnation=worker.group.incarnation, at_target=mirror)
        yield
    finally:
        worker.switching.discard(name)
        if _is_ours(worker, route):
            note(ledger, by="", incarnation="", at_target="")


def note(ledger: SyncLedger, **changes: object) -> None:
    """Changes the group's record; what is empty is not in it."""
    record = {**ledger.get("failover"), **changes}
    ledger.put("failover", {name: value for name, value in record.items() if value})


def refuse_replaced(worker: Worker, route: Route) -> None:
    """Checks that the group's record still names this worker.

    Raises:
        NotNow: another one has begun at the same moment, and its record is the later one.
    """
    if not _is_ours(worker, route):
        raise NotNow("another worker has begun a failover of this connector", hint="wait for its end")


def _is_ours(worker: Worker, route: Route) -> bool:
    return bool(route.sync.ledger.get("failover").get("incarnation") == worker.group.incarnation)


def refuse_failover(worker: Worker, name: str) -> None:
    """Checks that nobody fails connector `name` over, as far as this worker knows.

    Raises:
        NotNow: somebody does.
    """
    known = SyncLedger(name, worker.store).get("failover")
    if name in worker.switching or _other_is_at_it(worker, known, source_dead=False):
        raise NotNow(f"a failover of connector {name} is going on", hint="wait for its end")


def decided_by_hand(ledger: SyncLedger) -> None:
    """Somebody says what state the connector is in: no failover, interrupted or going on, returns it to another."""
    if ledger.get("failover").keys() & {"resume", "opened", "failed_over_at", "begun_at"}:
        note(ledger, resume="", opened=False, failed_over_at=0.0, begun_at=0.0)


def failed_over_at(ledger: SyncLedger, state: State) -> float | None:
    """When a connector in this state was failed over, in seconds since the epoch; None: it is not."""
    return ledger.get("failover").get("failed_over_at") if state is State.STOPPED else None


def stopped_by_failover(ledger: SyncLedger, state: State) -> float | None:
    """When a failover stopped a connector that is in this state, complete or not; None: none did."""
    known = ledger.get("failover")
    return known.get("begun_at") or known.get("failed_over_at") if state is State.STOPPED else None


async def _others_end(worker: Worker, route: Route, *, source_dead: bool) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SESSIONS * worker.settings.session_timeout
    logged = False
    while _other_is_at_it(worker, route.sync.ledger.get("failover"), source_dead=source_dead):
        by = route.sync.ledger.get("failover")["by"]
        if loop.time() > deadline:
            raise NotNow(
                f"worker {by} carries out a failover of connector {route.name}",
                hint="wait for its end, or end that worker",
            )
        if not logged:
            log.info(
                "waiting for another worker's failover to end, or for that worker to be declared dead",
                connector=route.name,
                by=by,
            )
            logged = True
        await asyncio.sleep(_POLL_INTERVAL)


def _other_is_at_it(worker: Worker, known: Mapping[str, Any], *, source_dead: bool) -> bool:
    others, process = (worker.seen_at_target, "at_target") if source_dead else (worker.others, "incarnation")
    other = others.get(known.get("by", ""))
    return other is not None and other.incarnation == known.get(process)
