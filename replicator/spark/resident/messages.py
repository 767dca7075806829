"""What a worker and a Spark task that copies its queues tell each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from replicator.routing.queue_map import Queue
from replicator.spark.resident.snapshot import Snapshot

__all__ = [
    "Drain",
    "End",
    "Grant",
    "Hello",
    "Part",
    "Released",
    "Report",
    "TaskMessage",
    "Terms",
    "Work",
    "WorkerMessage",
    "pages",
    "read_task_message",
    "read_worker_message",
    "write",
]


class Part(msgspec.Struct, frozen=True):
    """A queue to copy, and what is known of it."""

    route: str
    topic: str
    source: Queue
    target_topic: str
    target: Queue
    from_start: bool
    state: Snapshot


class Terms(msgspec.Struct, frozen=True):
    """How a route copies: its settings but for the rates, and `late_before` as in `RouteOptions`."""

    settings: dict[str, Any]
    late_before: int


class Work(msgspec.Struct, frozen=True, tag=True):
    """Queues that the task copies from now on, and the terms of their routes, by name; `rates` as in `Grant`."""

    routes: dict[str, Terms]
    parts: list[Part]
    rates: dict[str, tuple[int, int]]


class Released(msgspec.Struct, frozen=True, tag=True):
    """Fingerprints of messages that a route does not copy, by topic, as in `ReleasedMessages`.

    They are told before the queues, and may be told in parts and again.
    """

    route: str
    fingerprints: dict[str, list[bytes]]


class Drain(msgspec.Struct, frozen=True, tag=True):
    """Queues that the task is to settle and end, by key; `rates` as in `Grant`, and they apply before that."""

    keys: list[str]
    rates: dict[str, tuple[int, int]]


class Grant(msgspec.Struct, frozen=True, tag=True):
    """The answer to a report: the task may send for so many seconds since it sent that.

    `rates` are the messages and bytes per second of each route, 0 for no limit. `clock` is the worker's (seconds
    since the epoch), and `skews` are the seconds that the source's brokers are ahead of it.
    """

    sequence: int
    seconds: float
    rates: dict[str, tuple[int, int]]
    clock: float
    skews: dict[str, float]


class End(msgspec.Struct, frozen=True, tag=True):
    """Nothing is left to copy: the task is to end."""


class Hello(msgspec.Struct, frozen=True, tag=True):
    """A task that has started: the number of its job, and the machine it runs on."""

    number: int
    host: str


class Report(msgspec.Struct, frozen=True, tag=True):
    """The states that have changed since the last report, and differences that the audit has found since."""

    sequence: int
    states: list[Snapshot]
    events: list[dict[str, Any]]


T = TypeVar("T")

#: A snapshot takes as much as so many runs of its offset map, each of some 20 bytes; and a page as much as these.
_RUNS: Final = 40
_PAGE: Final = 50_000

WorkerMessage = Work | Released | Drain | Grant | End
TaskMessage = Hello | Report

_worker_messages = msgspec.msgpack.Decoder(WorkerMessage)
_task_messages = msgspec.msgpack.Decoder(TaskMessage)
write = msgspec.msgpack.Encoder().encode


def pages(snapshots: Iterable[T], weight: Callable[[T], Snapshot]) -> Iterator[list[T]]:
    """`snapshots`, or what has some, in lists that each fit into a frame many times; none where there are none."""
    page: list[T] = []
    runs = 0
    for each in snapshots:
        page.append(each)
        runs += _RUNS + len(weight(each).progress.runs)
        if runs > _PAGE:
            yield page
            page, runs = [], 0
    if page:
        yield page


def read_worker_message(body: bytes) -> WorkerMessage:
    """What a worker has sent to a task.

    Raises:
        msgspec.MsgspecError: it is of another form: of another version.
    """
    message: WorkerMessage = _worker_messages.decode(body)
    return message


def read_task_message(body: bytes) -> TaskMessage:
    """What a task has sent to its worker; errors as those of `read_worker_message`."""
    message: TaskMessage = _task_messages.decode(body)
    return message
