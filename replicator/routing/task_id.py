"""What a task is called in heartbeats, assignments, records of the shared state and REST."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from replicator.routing.message_queue import MessageQueue
from replicator.routing.queue_map import Queue

__all__ = ["METADATA", "TaskId"]

#: The name of a route's task that copies no messages but metadata; no topic can be called so.
METADATA: Final = ".metadata"


class TaskId(NamedTuple):
    """A task of `connector`, printed as `connector/name` or, where it is one queue of a topic,
    `connector/topic/broker/queue_id`; the same names the records of a topic and of a queue in the shared state.

    `name` is a topic, `METADATA`, or what a plugin calls its task.
    """

    connector: str
    name: str
    queue: Queue | None = None

    def __str__(self) -> str:
        return f"{self.connector}/{self.task}" if self.name else self.connector

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """The task that is printed as `text`.

        Never fails, since other workers say it: without a slash, `text` is a connector whose task has no name.
        """
        return _parse(text)

    @property
    def task(self) -> str:
        """What the task is called within its connector."""
        return self.name if self.queue is None else str(MessageQueue(self.name, *self.queue))

    @property
    def whole(self) -> TaskId:
        """Without the queue: what names its topic's records."""
        return TaskId(self.connector, self.name)


@lru_cache(maxsize=1 << 16)  # a worker looks at the names of all its tasks several times a second
def _parse(text: str) -> TaskId:
    connector, _, task = text.partition("/")
    name, _, rest = task.partition("/")
    broker, _, queue_id = rest.rpartition("/")
    if name and broker and queue_id.isascii() and queue_id.isdecimal() and str(int(queue_id)) == queue_id:
        return TaskId(connector, name, Queue(broker, int(queue_id)))
    return TaskId(connector, task)  # plugins may have slashes in their tasks' names
