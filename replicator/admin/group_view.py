"""The whole group as any of its workers knows it: workers, connectors, tasks, queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from replicator import __version__
from replicator.connector.status import task_states
from replicator.group.membership import MemberState
from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase
from replicator.routing.task_id import TaskId
from replicator.state.connector_configs import Connector, State
from replicator.state.queue_records import offset_of
from replicator.state.record import Kind
from replicator.worker.halted_topics import told_whole
from replicator.worker.worker import Worker

__all__ = ["GroupView", "source_away"]

#: State of a task that no worker runs, as in Kafka Connect.
_UNASSIGNED: Final = Phase.UNASSIGNED.value
#: Of a topic as it was last published before the source was away.
_AWAY: Final = {
    "state": _UNASSIGNED,
    "reason": "the source is away; the numbers are those that were published last",
    "severity": 0,
}
#: What is added up over the workers that have queues of a topic.
_SUMMED: Final = (
    *("queues", "failed", "waiting", "stalled", "copied", "lag_messages"),
    *("skipped", "gap_messages", "target_lost", "late", "duplicates", "foreign"),
    *("verified", "unverified", "audit_differences"),
)


#: What a topic's status lacks where a worker of an older version has published it.
_NEWER: Final = {"late": 0, "verified": 0, "unverified": 0, "audit_differences": 0, "verified_age_seconds": 0.0}


def source_away(worker: Worker) -> str:
    """Why `worker` cannot reach the source; empty: it can."""
    return worker.refresher.source_away if worker.standby is None else worker.standby.reason


class GroupView:
    """What `worker` knows of its group, from heartbeats and the shared state."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @property
    def rebalancing(self) -> bool:
        """Whether a rebalance is under way."""
        return self._worker.coordinator.changing_hands

    def workers(self) -> list[dict[str, Any]]:
        """All workers, sorted by id."""
        coordinator = self._worker.coordinator
        mine = {
            "rest": self._worker.rest_address,
            "version": __version__,
            "tasks": task_states(self._worker.routes),
            "waiting_for": self._worker.group.waiting_for,
        }
        known: dict[str, tuple[MemberState, Any]] = {self._worker.id: (coordinator.stage, mine)}
        for name, beat in self._worker.others.items():
            known[name] = (beat.stage, beat.info)
        able = coordinator.takes_tasks()
        return [
            {
                "worker_id": name,
                "address": info.get("rest", ""),
                "version": info.get("version", ""),
                "state": stage.name,
                "waiting_for": info.get("waiting_for", ""),
                "leader": name == coordinator.assignment.generation.leader,
                "takes_tasks": name in able,
                "tasks": len(info.get("tasks", {})),
            }
            for name, (stage, info) in sorted(known.items())
        ]

    def cluster(self) -> dict[str, Any]:
        """The group itself."""
        worker = self._worker
        generation = worker.coordinator.assignment.generation
        return {
            "group": worker.group.name,
            "source": worker.identity.source,
            "target": worker.identity.target,
            "generation": generation.number,
            "leader": generation.leader,
            "rebalancing": self.rebalancing,
            "workers": self.workers(),
        }

    def _states(self) -> dict[str, str]:
        found = dict(task_states(self._worker.routes))
        for other in self._worker.others.values():
            found.update(other.tasks)
        return found

    def tasks(self, connector: Connector) -> list[dict[str, Any]]:
        """The tasks of a connector, each with its owner and state."""
        states, reason_of = self._states(), self._reasons(connector)
        idle = _UNASSIGNED if connector.state is State.RUNNING else connector.state.value
        found = []
        for task, owner in sorted(self._worker.coordinator.assignment.owners.items()):
            name = TaskId.parse(task)
            if name.connector == connector.name:
                state = states.get(task, idle)
                trace = reason_of(owner, name) if state == Phase.FAILED else None
                found.append({"id": name.task, "worker_id": owner, "state": state, "trace": trace})
        return found

    def _reasons(self, connector: Connector) -> Callable[[str, TaskId], str | None]:
        """Why a task failed at a worker, as that has last published it; None: it has not yet.

        A plugin's tasks are not named after topics: any reason of its worker stands for each.
        """
        found: dict[tuple[str, TaskId], str] = {}
        for worker, status in self._statuses():
            for each in (*status["topics"], *status.get("queues", ())):
                if each["connector"] == connector.name and each["state"] == Phase.FAILED:
                    queue = Queue(each["broker"], each["queue"]) if "queue" in each else None
                    found[worker, TaskId(connector.name, each["topic"], queue)] = each["reason"]
        if connector.type != "ROUTE":
            by_worker = {worker: reason for (worker, _), reason in found.items()}
            return lambda worker, _: by_worker.get(worker)
        return lambda worker, task: found.get((worker, task))

    def status(self, connector: Connector) -> dict[str, Any]:
        """A connector's status in the form of RocketMQ Connect."""
        leader = self._worker.coordinator.assignment.generation.leader
        reads, here = connector.type != "SOURCE", self._worker.standby is None
        return {
            "name": connector.name,
            "connector": {"state": connector.state.value, "worker_id": leader},
            "tasks": self.tasks(connector),
            "topics": self.topics(connector),
            "problems": self.problems(connector),
            "source_away": source_away(self._worker) if reads else "",
            "source_seen_at": self._worker.refresher.source_seen_at if reads and here else None,
            "type": connector.type,
        }

    def info(self, connector: Connector) -> dict[str, Any]:
        """A connector's configuration and tasks in the form of RocketMQ Connect."""
        return {
            "name": connector.name,
            "config": connector.config,
            "tasks": [{"connector": connector.name, "task": task["id"]} for task in self.tasks(connector)],
            "type": connector.type,
        }

    def allocated(self) -> dict[str, list[dict[str, Any]]]:
        """Per worker the tasks that are assigned to it."""
        states = self._states()
        found: dict[str, list[dict[str, Any]]] = {worker["worker_id"]: [] for worker in self.workers()}
        for task, owner in sorted(self._worker.coordinator.assignment.owners.items()):
            name = TaskId.parse(task)
            found.setdefault(owner, []).append(
                {"connector": name.connector, "task": name.task, "state": states.get(task, _UNASSIGNED)}
            )
        return found

    def topics(self, connector: Connector) -> list[dict[str, Any]]:
        """What the live workers last published about a connector's topics, summed up over workers.

        `copied` counts since the route began, so it continues when a task moves to another worker. Where all queues
        of a topic are halted, one worker tells of all, and what others have published before is not added.
        """
        topics: dict[str, dict[str, Any]] = {}
        for told in self._of_topics():
            if told["connector"] != connector.name:
                continue
            topic = {**_NEWER, **told, "copied": told.get("copied_in_all", told["copied"])}
            topic.pop("copied_in_all", None)
            known = topics.setdefault(topic["topic"], topic)
            if known is not topic:
                topics[topic["topic"]] = _added(known, topic)
        return [topics[name] for name in sorted(topics)]

    def progress(self) -> dict[tuple[str, str], tuple[float, float]]:
        """By connector and topic, its lag in messages and how many were copied since the route began."""
        found: dict[tuple[str, str], tuple[float, float]] = {}
        for topic in self._of_topics():
            key = topic["connector"], topic["topic"]
            lag, copied = found.get(key, (0.0, 0.0))
            more = topic.get("copied_in_all", topic["copied"])
            found[key] = lag + topic["lag_messages"], copied + more
        return found

    def _of_topics(self) -> Iterator[dict[str, Any]]:
        """What each worker told of topics; of one whose queues are all halted, what the one tells that has all."""
        store, connectors = self._worker.store, self._worker.connectors.all()
        told = [topic for _, status in self._statuses() for topic in status["topics"]]
        whole = told_whole(told, store, connectors)
        yield from (each for each in told if whole.get((each["connector"], each["topic"]), each) is each)

    def problems(self, connector: Connector | None = None) -> dict[str, str]:
        """Topics that cannot be copied, as published by the workers; only those of `connector` if it is given.

        Workers of older versions do not say whose they are: theirs are in any case.
        """
        found: dict[str, str] = {}
        for _, status in self._statuses():
            if connector is None or "connector_problems" not in status:
                found |= status["problems"]
            else:
                found |= status["connector_problems"].get(connector.name, {})
        return found

    def noticed(self) -> list[dict[str, Any]]:
        """Warnings, errors and changes that people asked for at other workers, as these have published them."""
        me = self._worker.id
        return [
            event | {"worker": name}
            for name, status in self._statuses()
            if name != me
            for event in status.get("events", ())
        ]

    def worst_queues(self, connector: str, topic: str) -> dict[tuple[str, int], dict[str, Any]]:
        """The queues of a topic that do not run or lag at some worker, by source broker and number."""
        return {
            (queue["broker"], queue["queue"]): queue | {"worker": name}
            for name, status in self._statuses()
            for queue in status.get("queues", ())
            if (queue["connector"], queue["topic"]) == (connector, topic)
        }

    def _statuses(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What each live worker last published, by its id; while we stand by, what any did, since none copies."""
        alive = {self._worker.id, *self._worker.others}
        for name, status in self._worker.store.state.items(Kind.STATUS).items():
            if self._worker.standby is not None:
                yield name, {**status, "topics": [{**topic, **_AWAY} for topic in status["topics"]]}
            elif name in alive:
                yield name, status

    def queues(self, connector: Connector, topic: str | None = None) -> list[dict[str, Any]]:
        """The queue map with the progress of each queue."""
        store, found = self._worker.store, []
        for name, queue_map in sorted(store.queue_maps(connector.name).items()):
            if topic is not None and name != topic:
                continue
            for source, target in sorted(queue_map.items()):
                key = str(TaskId(connector.name, name, source))
                known = store.progress(connector.name, key)[0]
                audit = (known or {}).get("audit") or {}
                found.append(
                    {
                        "topic": name,
                        "target_topic": store.target_topic(connector.name, name),
                        "source": {"broker": source.broker, "queue": source.queue_id},
                        "target": {"broker": target.broker, "queue": target.queue_id},
                        "position": offset_of(known),
                        "verified_to": audit.get("to"),
                        "differences": dict(audit.get("differences", {})),
                    }
                )
        return found


def _added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    worse = max(one, other, key=lambda topic: topic["severity"])
    return {
        **worse,
        **{name: one[name] + other[name] for name in _SUMMED},
        **{name: max(one[name], other[name]) for name in ("lag_seconds", "verified_age_seconds")},
    }
