"""The state of a worker on disk: `connectorConfig.json`, `taskConfig.json`, `position.json`, `offset.json`.

- connectorConfig: the route as it is in force, without secrets, and the ids of both clusters;
- taskConfig: per topic its queue map, append-only;
- position: per source queue what the source task has settled;
- offset: per source queue what the target has acknowledged, as the exact offset map.

Nothing here is needed to be right: the target's messages are the truth, this shortens the way to it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from replicator.errors import StartupError
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.queue_map import Queue, QueueMap
from replicator.routing.state import QueueState
from replicator.runtime import files

__all__ = ["Store"]

CONNECTORS: Final = "connectorConfig.json"
TASKS: Final = "taskConfig.json"
POSITIONS: Final = "position.json"
OFFSETS: Final = "offset.json"


class Store:
    """The four files in `directory`, which one process at a time may use.

    Raises:
        StartupError: the directory cannot be used, or another process uses it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StartupError(
                f"store_path = {str(directory)!r} cannot be used ({error.strerror})",
                hint="name a directory that this user can write",
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StartupError(
                f"store_path = {str(directory)!r} is in use by another replicator",
                hint="stop that one, or give this one a store path of its own",
            ) from None
        try:
            for half_written in directory.glob(".*.json.*"):  # by a process that was killed then
                half_written.unlink(missing_ok=True)
            self._tasks: dict[str, Any] = files.read(directory / TASKS) or {}
            self._positions: dict[str, Any] = files.read(directory / POSITIONS) or {}
            self._offsets: dict[str, Any] = files.read(directory / OFFSETS) or {}
            self._forget_clean_end()
        except OSError as error:
            os.close(self._lock)
            raise StartupError(
                f"store_path = {str(directory)!r} cannot be written ({error.strerror})",
                hint="make room there, or name a directory that this user can write",
            ) from None
        except StartupError:
            os.close(self._lock)
            raise

    def _forget_clean_end(self) -> None:
        """Only the first process after a clean end may believe in it, even if it dies at once."""
        if any(offset["clean"] for offset in self._offsets.values()):
            unclean = {key: {**offset, "clean": False} for key, offset in self._offsets.items()}
            files.write(self.directory / OFFSETS, unclean)

    def close(self) -> None:
        """Lets another process use the directory."""
        os.close(self._lock)

    def connector(self) -> dict[str, Any]:
        """What `save_connector` kept."""
        return files.read(self.directory / CONNECTORS) or {}

    def save_connector(self, config: Mapping[str, Any]) -> None:
        files.write(self.directory / CONNECTORS, config)

    def queue_maps(self) -> dict[str, dict[Queue, Queue]]:
        """The queue maps of all topics ever copied, by source topic."""
        return {
            topic: {_queue(source): _queue(target) for source, target in task["queues"].items()}
            for topic, task in self._tasks.items()
        }

    def save_queue_map(self, topic: str, target_topic: str, queue_map: QueueMap) -> None:
        """Keeps a queue map before the first message flows by it."""
        queues = {_name(source): _name(target) for source, target in sorted(queue_map.items())}
        self._tasks[topic] = {"target_topic": target_topic, "queues": queues}
        files.write(self.directory / TASKS, self._tasks)

    def restore(self, state: QueueState) -> bool:
        """Puts what is known of a queue into `state`; False when it was never seen."""
        key = _key(state)
        position, offset = self._positions.get(key), self._offsets.get(key)
        if position is not None:
            state.position = position["position"]
            state.start = position["start"]
        if offset is not None:
            state.offsets = OffsetMap(Interval(*interval) for interval in offset["intervals"])
            state.target_floor = offset["target_floor"]
            state.store_timestamp = offset["store_timestamp"]
            state.clean = offset["clean"]
        return position is not None

    def update(self, states: Iterable[QueueState]) -> None:
        """Takes the progress of `states`, to be written by the next `flush`."""
        for state in states:
            if state.position is None:
                continue
            key = _key(state)
            self._offsets[key] = {
                "target": [state.target.broker, state.target.queue_id],
                "clean": state.clean,
                "target_floor": state.target_floor,
                "store_timestamp": state.store_timestamp,
                "intervals": list(state.offsets),
            }
            self._positions[key] = {"position": state.position, "start": state.start}

    def flush(self) -> None:
        """Writes progress; offsets first, so that no position is ahead of them. Not while `update` runs.

        Raises:
            OSError: the directory cannot be written now; what is in memory stays.
        """
        files.write(self.directory / OFFSETS, self._offsets)
        files.write(self.directory / POSITIONS, self._positions)


def _key(state: QueueState) -> str:
    return f"{state.topic}/{_name(state.source)}"


def _name(queue: Queue) -> str:
    return f"{queue.broker}/{queue.queue_id}"


def _queue(name: str) -> Queue:
    broker, _, queue_id = name.rpartition("/")
    return Queue(broker, int(queue_id))
