"""A snapshot of a worker's metrics, for /metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from replicator import __version__
from replicator.aio.clock import now
from replicator.aio.loop_monitor import EventLoopMonitor
from replicator.connector.route import Route
from replicator.group.membership import Side
from replicator.observe.numbers import Sample, Snapshot
from replicator.routing.state import LATENCY_BUCKETS, Phase, QueueState
from replicator.routing.task_id import TaskId
from replicator.worker.worker import Worker

__all__ = ["snapshot"]

#: Queues that are summed up before other tasks of the event loop get a turn.
_AT_ONCE: Final = 256

#: Metrics of a kind of metadata with their names in its status; then those of consumer offsets.
_SYNC: Final = {
    "sync_last_success_timestamp_seconds": "at",
    "sync_actions_applied": "applied",
    "sync_failed_actions": "failed",
    "sync_blocked_actions": "blocked",
    "sync_drifted_items": "drift",
}
_GROUPS: Final = {
    "consumer_group_redelivery_messages": "redelivered",
    "consumer_group_missed_messages": "missed",
    "consumer_group_queues_without_offset": "without_offset",
}
#: None: it is not known, and has no sample. A queue whose position is not known has no lag that is.
_PER_QUEUE: Final[dict[str, Callable[[QueueState, float], float | None]]] = {
    "queue_lag_messages": lambda state, _: None if state.progress.position is None else state.progress.lag,
    "queue_lag_seconds": lambda state, at: (
        None if state.progress.position is None else state.progress.lag_seconds(at)
    ),
    "queue_position": lambda state, _: state.progress.position,
    "queue_verified_offset": lambda state, _: state.audit.verified_to,
}
_COPIED: Final = "queue_messages_replicated"


async def snapshot(worker: Worker, loop_monitor: EventLoopMonitor) -> Snapshot:
    """Sums up the queues of `worker`, a few at a time, so that messages are copied meanwhile."""
    at = time.time()
    identity = worker.identity
    found = Snapshot(
        always={"source": identity.source, "target": identity.target}, phases=list(Phase), buckets=LATENCY_BUCKETS
    )
    queues: dict[str, list[Sample]] = {name: [] for name in (_COPIED, *_PER_QUEUE)}
    # Of one moment: what a queue has counted is in its state while it runs here, and in a tally once it has ended.
    states, ended = worker.queues, dict(worker.context.tallies)
    for number, state in enumerate(states, 1):
        found.add(state, at)
        if worker.settings.metrics_per_queue:
            labels = (state.route, state.topic, state.source.broker, str(state.source.queue_id))
            for name, read in _PER_QUEUE.items():
                if (value := read(state, at)) is not None:
                    queues[name].append((labels, value))
            before = ended.get(state.key)
            queues[_COPIED].append((labels, state.counters.copied + (before.counters.copied if before else 0)))
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
    for key, tally in ended.items():
        task = TaskId.parse(key)
        found.add_ended(task.connector, task.name, tally)
    found.samples = {
        **{name: [((), value)] for name, value in _plain(worker).items()},
        "event_loop_delay_seconds": [((), loop_monitor.delay)],
        **_group(worker, at),
        **_sync(worker),
        **queues,
        "build_info": [((__version__,), 1)],
    }
    return found


def _plain(worker: Worker) -> dict[str, float]:
    coordinator, rebalances = worker.coordinator, worker.rebalances
    return {
        "buffer_used_bytes": worker.budget.used,
        "buffer_limit_bytes": worker.budget.limit,
        "throttled_seconds": worker.routes.throttled_seconds,
        "metadata_refresh_last_success_timestamp_seconds": worker.refreshed_at,
        "state_save_last_success_timestamp_seconds": worker.progress.saved_at,
        "worker_group_members": 1 + len(coordinator.membership.others),
        "assignment_generation": coordinator.assignment.generation.number,
        "rebalances": rebalances.count,
        "rebalance_duration_seconds": rebalances.seconds(now()),
        "rebalancing": rebalances.going_on,
        "tasks": len(coordinator.running),
        "lease_held": worker.may_send(),
        "fencings": worker.fencings,
    }


def _group(worker: Worker, at: float) -> dict[str, list[Sample]]:
    """Metrics of the group; its monotonic times are converted to seconds since the epoch."""
    ahead, membership = at - now(), worker.coordinator.membership
    return {
        "state_mirror_last_success_timestamp_seconds": [
            ((), mirror.flushed_at) for mirror in (worker.mirror,) if mirror is not None and mirror.writes
        ],
        "heartbeat_last_echo_timestamp_seconds": [
            ((side.value,), max(0.0, membership.echo_of(side) + ahead)) for side in Side
        ],
        "member_last_heartbeat_timestamp_seconds": [
            ((name,), heard + ahead) for name, heard in membership.last_heard().items()
        ],
        "shared_state_records_skipped": [
            ((origin,), count) for origin, count in worker.store.skipped.counts.items()
        ],
        "control_messages_ignored": [((kind,), count) for kind, count in worker.ignored_messages.items()],
    }


def _sync(worker: Worker) -> dict[str, list[Sample]]:
    kinds: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
        route.name: route.sync.status.get("kinds", {})
        for route in worker.routes
        if isinstance(route, Route) and route.sync.running
    }
    found: dict[str, list[Sample]] = {}
    for name, key in _SYNC.items():
        found[name] = [
            ((route, kind), status[key]) for route, all_ in kinds.items() for kind, status in all_.items()
        ]
    for name, key in _GROUPS.items():
        found[name] = [
            ((route,), all_["offsets"].get(key, 0)) for route, all_ in kinds.items() if "offsets" in all_
        ]
    return found
