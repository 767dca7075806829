"""A broker that was taken away for good: the group treats it as gone, and its queues go elsewhere.

Nothing is decided by silence: the name servers must not list it any more, and the queue map of a target broker is
changed only while no worker copies.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from replicator.admin.brokers import MappedQueue, brokers_of, discovery_of, mapped_queues
from replicator.admin.failover_turn import NotNow, refuse_failover
from replicator.admin.running_tasks import running, stopped
from replicator.client.nameservers import NoBrokers
from replicator.connector.route import Route
from replicator.errors import ConfigError
from replicator.observe.logging import get_logger
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.plan import MAX_QUEUES
from replicator.routing.queue_map import Queue, moved_to
from replicator.routing.task_id import TaskId
from replicator.state.connector_configs import State, Unknown
from replicator.state.known_brokers import Side, being_given_up, key_of, record_of, record_value
from replicator.state.queue_records import is_about
from replicator.state.record import Kind
from replicator.state.store import Store
from replicator.worker.worker import Worker

__all__ = ["Removal", "forget", "leave_as_it_is"]

_moving: Final = asyncio.Lock()

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What to do about a broker that is gone.

    `queues_to`: the target broker that takes the queues of a target broker. `lost`: what becomes of the copies that
    were only there: `resend` copies again what the source still has, `skip` counts them as lost. `dry_run`: nothing
    is changed, only reported.
    """

    side: Side
    broker: str
    queues_to: str = ""
    lost: Literal["resend", "skip"] | None = None
    dry_run: bool = False


#: The new targets of source queues, by connector and topic.
_Moves = Mapping[tuple[str, str], Mapping[Queue, Queue]]


async def forget(worker: Worker, removal: Removal) -> dict[str, Any]:
    """Has the group treat a broker as gone; may be repeated where it was interrupted.

    Raises:
        Unknown: nobody has ever seen such a broker.
        ConfigError: its queues have no place to go, or a choice is missing.
        NotNow: the broker is there, this worker does not reach its group, or tasks do not stop.
        ClientError: the name servers do not answer, or the decision could not be published.
    """
    await _refuse_living(worker, removal)
    concerned, moves = _plan(worker, removal)
    if removal.dry_run:
        return _report(worker, removal, concerned, moves)
    if not worker.may_send():
        raise NotNow("this worker does not reach its group", hint="ask another worker")
    async with _moving:  # or another call would take connectors that this one has stopped for stopped ones
        await _refuse_listed(worker, removal)  # the call before this one may have taken minutes
        concerned, moves = _plan(worker, removal)  # the call before this one may have moved them
        report = _report(worker, removal, concerned, moves)
        _refuse_others(worker, removal)
        try:
            if moves:
                await _move(worker, removal, concerned)
            else:
                await _decide(worker, removal)
        finally:
            await _resume(worker, removal)
    logged = {name: report[name] for name in ("side", "broker", "queues_to", "lost", "copies")}
    log.warning("broker is given up", queues=len(concerned), **logged)
    return report


def _plan(worker: Worker, removal: Removal) -> tuple[list[MappedQueue], _Moves]:
    """The broker's queues as they are mapped now, and where they go: a source broker's go nowhere."""
    concerned = [
        queue
        for queue in mapped_queues(worker)
        if (queue.source.broker if removal.side == "source" else queue.target.broker) == removal.broker
    ]
    if removal.side == "source":
        return concerned, {}
    _refuse_homeless(worker, removal, concerned)
    return concerned, _plan_moves(worker, removal, concerned)


async def _refuse_living(worker: Worker, removal: Removal) -> None:
    side, broker = removal.side, removal.broker
    if broker not in brokers_of(worker, side):
        raise Unknown(f"the {side} has no broker {broker!r}", hint="`replicator brokers list` shows them")
    stopped_for_it = ", ".join(sorted(_resumed(worker, removal)))
    more = f"; or resume what was stopped to give it up: {stopped_for_it}" if stopped_for_it else ""
    await _refuse_listed(worker, removal, more)


async def _refuse_listed(worker: Worker, removal: Removal, more: str = "") -> None:
    """Checks that the broker has not come back; `more` is what can be done about it, too."""
    side, broker = removal.side, removal.broker
    try:
        listed = (await discovery_of(worker, side).cluster.refresh()).brokers
    except NoBrokers as error:
        raise NotNow(
            f"no broker of the {side} is registered at all: {error.message}",
            hint="where the source is lost as a whole, use `replicator failover --source-dead`",
        ) from None
    if broker in listed:
        raise NotNow(
            f"the name servers of the {side} list broker {broker}: it is not gone",
            hint=f"stop it, or wait up to two minutes until they have noticed that its machine is dead{more}",
        )


def _refuse_homeless(worker: Worker, removal: Removal, concerned: Sequence[MappedQueue]) -> None:
    """A target broker's queues need another place, and their copies a decision."""
    masters = sorted(worker.context.target.masters - {removal.broker})
    if not concerned:
        return
    if not removal.queues_to:
        raise ConfigError(
            f"{len(concerned):,} queues are copied to broker {removal.broker}",
            hint=f"say which broker takes them: --queues-to {' or '.join(masters) or 'BROKER'}",
        )
    if removal.queues_to not in masters:
        raise ConfigError(
            f"queues_to = {removal.queues_to!r} is not another target broker whose master answers",
            hint=f"use one of {', '.join(masters)}" if masters else "start one",
        )
    if removal.lost is None:
        raise ConfigError(
            f"copies were only at broker {removal.broker}, and nothing says what becomes of them",
            hint="--lost resend copies again what the source still has, --lost skip counts them as lost",
        )


def _plan_moves(worker: Worker, removal: Removal, concerned: Iterable[MappedQueue]) -> _Moves:
    store, moves, taken = worker.store, {}, _taken(worker)
    there = worker.context.target.topics.get(removal.queues_to, {})
    for connector, topic in sorted({(queue.connector, queue.source.topic) for queue in concerned}):
        name = store.target_topic(connector, topic)
        config = there.get(name)
        known = store.whole_queue_map(connector, topic)
        existing, left = config.queues if config else 0, taken[connector, name]
        new = moved_to(known, removal.broker, removal.queues_to, existing=existing, left=left)
        if not new:
            continue  # another worker has moved them meanwhile
        moves[connector, topic] = new
        left.update(new.values())
        if max(queue.queue_id for queue in new.values()) >= MAX_QUEUES:
            raise ConfigError(
                f"topic {topic} would have over {MAX_QUEUES:,} queues on broker {removal.queues_to}",
                hint="name another broker",
            )
    return moves


def _taken(worker: Worker) -> dict[tuple[str, str], set[Queue]]:
    """Target queues with copies, by connector and target topic: several source topics may have one name there."""
    store, taken = worker.store, defaultdict[tuple[str, str], set[Queue]](set)
    for queue in mapped_queues(worker):
        connector, topic = queue.connector, queue.source.topic
        taken[connector, store.target_topic(connector, topic)] |= {queue.target, *store.left(connector, topic)}
    return taken


def _report(worker: Worker, removal: Removal, concerned: Sequence[MappedQueue], moves: _Moves) -> dict[str, Any]:
    queues = [_shown(worker, queue, moves) for queue in concerned]
    elsewhere = {
        topic
        for broker, topics in worker.context.source.topics.items()
        if broker != removal.broker
        for topic in topics
    }
    gone = {queue.source.topic for queue in concerned} - elsewhere if removal.side == "source" else set()
    return {
        "side": removal.side,
        "broker": removal.broker,
        "queues_to": removal.queues_to if moves else "",
        "lost": removal.lost if moves else None,
        "dry_run": removal.dry_run,
        "queues": queues,
        "copies": sum(each["copies"] for each in queues) if removal.side == "target" else 0,
        "topics_gone": sorted(gone),
    }


def _shown(worker: Worker, queue: MappedQueue, moves: _Moves) -> dict[str, Any]:
    """How far a queue was copied, and where it goes from now on."""
    source = queue.source.queue
    key = str(TaskId(queue.connector, queue.source.topic, source))
    position, offset = worker.store.progress(queue.connector, key)
    copies, stored = 0, 0
    if offset is not None and is_about(offset, queue.target):
        copies = OffsetMap(Interval(*each) for each in offset["intervals"]).count_from(0)
        stored = offset["store_timestamp"]
    moved = moves.get((queue.connector, queue.source.topic), {}).get(source)
    return {
        "connector": queue.connector,
        "topic": queue.source.topic,
        "source": {"broker": source.broker, "queue": source.queue_id},
        "target": {"broker": queue.target.broker, "queue": queue.target.queue_id},
        "moved_to": None if moved is None else {"broker": moved.broker, "queue": moved.queue_id},
        "position": None if position is None else position["position"],
        "copied_until": stored / 1000 if stored else None,
        "copies": copies,
    }


def _refuse_others(worker: Worker, removal: Removal) -> None:
    """Two that move queues at the same time could give two of them the same place."""
    connectors, own = worker.connectors.all(), key_of(removal.side, removal.broker)
    for key, resume in sorted(being_given_up(worker.store.state).items()):
        halted = [name for name in resume if name in connectors and connectors[name].state is State.STOPPED]
        if halted and key != own:
            side, _, broker = key.partition("/")
            raise NotNow(
                f"{side} broker {broker} is being given up, and {', '.join(halted)} is stopped for it",
                hint="wait for that; where it was interrupted, repeat it, or resume the connector",
            )


async def _move(worker: Worker, removal: Removal, concerned: Sequence[MappedQueue]) -> None:
    """Changes the queue maps while nothing is copied by them, and has the new queues made before anything is."""
    names = sorted({queue.connector for queue in concerned})
    for name in names:  # it may hold them stopped, and resume them
        refuse_failover(worker, name)
    before = {name: worker.connectors.get(name).state.value for name in names}
    _note(worker, removal, resume=before | _resumed(worker, removal))  # whoever repeats it knows what ran
    reason = f"the {removal.side} broker {removal.broker} is given up"
    await _set_states(worker, dict.fromkeys(names, State.STOPPED), reason=reason)
    if not await stopped(worker, names):
        raise NotNow(
            "some tasks still copy, so nothing was moved",
            hint="check their workers, then repeat the command",
        )
    await _refuse_listed(worker, removal)
    _refuse_running(worker, names)
    for (connector, topic), new in _plan_moves(worker, removal, concerned).items():
        store = worker.store
        store.save_queue_map(
            connector,
            topic,
            store.target_topic(connector, topic),
            {**store.whole_queue_map(connector, topic), **new},
            moved=dict.fromkeys(new, removal.lost or "resend"),
        )
    await _decide(worker, removal)
    for name in names:
        route = worker.routes.get(name)
        if isinstance(route, Route):
            route.plan()
            await route.make_ready()


def _refuse_running(worker: Worker, names: Iterable[str]) -> None:
    """Checks that what was stopped still is; whoever deleted a connector has left nothing to be moved."""
    connectors = worker.connectors.all()
    for name in names:
        if name in connectors and (connectors[name].state is not State.STOPPED or running(worker, (name,))):
            raise NotNow(
                f"connector {name} was resumed meanwhile, or tasks of it run, so nothing was moved",
                hint="repeat the command",
            )


async def _decide(worker: Worker, removal: Removal) -> None:
    """Tells the group, and follows it here."""
    _note(worker, removal, forgotten_at=time.time(), resume=_resumed(worker, removal))
    await worker.changed()
    await worker.refresher.refresh()


async def _resume(worker: Worker, removal: Removal) -> None:
    """Gives connectors that were stopped for this, now or by a call that was interrupted, their states again."""
    if not (before := _resumed(worker, removal)):
        return
    record = record_of(worker.store.state, removal.side, removal.broker) or {}
    _note(worker, removal, forgotten_at=record.get("forgotten_at"))
    reason = f"the {removal.side} broker {removal.broker} has been given up"
    await _set_states(worker, {name: State(state) for name, state in before.items()}, reason=reason)


def _resumed(worker: Worker, removal: Removal) -> dict[str, str]:
    """The connectors that are stopped for this, and their states before."""
    record = record_of(worker.store.state, removal.side, removal.broker) or {}
    return {**record.get("resume", {})}


def leave_as_it_is(store: Store, connector: str) -> None:
    """Somebody has decided what a connector is to do: no removal of a broker returns it to what it did before."""
    for key, resume in being_given_up(store.state).items():
        if connector in resume:
            value = store.state.get(Kind.BROKER, key)
            rest = {name: state for name, state in resume.items() if name != connector}
            store.put(Kind.BROKER, key, record_value(value["forgotten_at"], rest))


def _note(
    worker: Worker,
    removal: Removal,
    *,
    forgotten_at: float | None = None,
    resume: Mapping[str, str] = MappingProxyType({}),
) -> None:
    key = key_of(removal.side, removal.broker)
    worker.store.put(Kind.BROKER, key, record_value(forgotten_at, resume))


async def _set_states(worker: Worker, states: Mapping[str, State], *, reason: str) -> None:
    for name, state in states.items():
        with suppress(Unknown):  # it was deleted meanwhile
            worker.connectors.set_state(name, state, reason=reason)
    await worker.changed()
