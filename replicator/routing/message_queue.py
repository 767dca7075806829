"""One queue of one topic, as RocketMQ's clients name it."""

from __future__ import annotations

from typing import NamedTuple, Self

from replicator.routing.queue_map import Queue

__all__ = ["MessageQueue"]


class MessageQueue(NamedTuple):
    """A queue of `topic`, printed as `topic/broker/queue_id` everywhere: in logs, errors and reports.

    A topic has no slash in its name; a broker may.
    """

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The queue that is printed as `text`.

        Raises:
            ValueError: `text` is not of that form.
        """
        topic, _, rest = text.partition("/")
        try:
            queue = Queue.parse(rest if topic else "")
        except ValueError:
            raise ValueError(f"{text!r} is not topic/broker/queue_id") from None
        return cls(topic, *queue)

    @property
    def queue(self) -> Queue:
        """The same within its topic."""
        return Queue(self.broker, self.queue_id)
