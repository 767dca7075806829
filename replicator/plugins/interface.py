"""What plugins are made of. A connector: a source brings records to the target cluster, a sink takes the source's.
A transform: changes the messages of a route on their way.

The promise to connectors is at least once: after a crash the records since the last saved position come again, in
order. All methods of tasks run in the worker's event loop: what blocks belongs into `asyncio.to_thread`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict

from replicator.errors import ReplicatorError

__all__ = [
    "Message",
    "NoConfig",
    "Polled",
    "Position",
    "Record",
    "SinkConnector",
    "SinkTask",
    "SourceConnector",
    "SourceTask",
    "TaskFailed",
    "Transform",
]

Config = TypeVar("Config", bound=BaseModel)

#: How far a source task is: a small JSON object that only its plugin understands.
Position = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """One message: its topic, its body without any framing, its properties (KEYS and TAGS are among them)."""

    topic: str
    body: bytes
    properties: Mapping[str, str] = field(default_factory=dict)


class Polled(NamedTuple):
    """A record that a source task has read, and the position behind it."""

    record: Record
    position: Position


class TaskFailed(ReplicatorError):
    """A person must look at it. Any `OSError` or other `ReplicatorError` is waited out instead."""


class SourceTask(ABC):
    """Reads records from somewhere. After an error it is stopped, and another one started where the last was."""

    @abstractmethod
    async def start(self, position: Position | None) -> None:
        """Begins behind what is at the target already; None: from the beginning."""

    @abstractmethod
    async def poll(self) -> Sequence[Polled]:
        """What comes next, in order; may wait for it a while. Nothing: it is asked again in half a second.

        It is called again when all of it is at the target. It may be cancelled.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Lets go of what `start` took; called once after `start`, also when that has failed."""


class SinkTask(ABC):
    """Writes records to somewhere. After an error it is stopped, and another one started."""

    @abstractmethod
    async def start(self) -> None:
        """Begins."""

    @abstractmethod
    async def put(self, records: Sequence[Record]) -> None:
        """Writes records of one queue, in order; returns when they would survive a crash of the machine."""

    @abstractmethod
    async def stop(self) -> None:
        """Lets go of what `start` took; called once after `start`, also when that has failed."""


class SourceConnector(ABC, Generic[Config]):
    """Made without arguments. `config` is the model of its configuration, best one that forbids extra keys."""

    config: ClassVar[type[BaseModel]]

    @abstractmethod
    def tasks(self, config: Config) -> Mapping[str, Sequence[str]]:
        """The names of its tasks, each with the topics that it writes: those are made at the target if missing.

        A name has up to 200 characters, no spaces and no slashes.

        A task writes to one queue of each topic, so that its order holds.
        """

    @abstractmethod
    def task(self, config: Config, name: str) -> SourceTask:
        """The task `name`, not started yet."""


class SinkConnector(ABC, Generic[Config]):
    """Made without arguments. `config` is the model of its configuration, best one that forbids extra keys."""

    config: ClassVar[type[BaseModel]]

    @abstractmethod
    def tasks(self, config: Config) -> Mapping[str, Sequence[str]]:
        """The names of its tasks, each with the topics of the source that it reads, all their queues."""

    @abstractmethod
    def task(self, config: Config, name: str) -> SinkTask:
        """The task `name`, not started yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of a route on its way; `dataclasses.replace` makes another one of it.

    `topic`, `broker`, `queue_id` and `queue_offset` say where it is at the source; timestamps are in
    milliseconds since the epoch. `queue_offset` and `store_timestamp` are -1 while it waits at its broker, which
    only a transform that `takes_waiting` is given. `body` is decompressed. `properties` are those that its producer
    gave it, TAGS and KEYS (separated by spaces) among them; neither provenance nor what brokers add.
    """

    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    born_timestamp: int
    store_timestamp: int
    flag: int
    body: bytes
    properties: Mapping[str, str]


class NoConfig(BaseModel):
    """The configuration of a transform that has none."""

    model_config = ConfigDict(extra="forbid")


class Transform(ABC, Generic[Config]):
    """Changes messages. Made with its configuration, once for each route that names it on each worker.

    `config` is the model of its configuration, best one that forbids extra keys; all values come as text.
    """

    config: ClassVar[type[BaseModel]] = NoConfig

    #: Whether it may be given messages that wait at their broker, so that a route with it can park them: what it
    #: makes of a message depends on nothing but its topic, flag, body and properties, and UNIQ_KEY, DELAY and
    #: TIMER_OUT_MS among these stay as they are.
    takes_waiting: ClassVar[bool] = False

    def __init__(self, config: Config) -> None:
        self.settings = config

    @abstractmethod
    def apply(self, message: Message) -> Message | None:
        """`message` itself, another with changed flag, body or properties, or None to leave it out.

        Called in the order of each queue, but a message may come more than once: it must become the same each
        time. Nothing else runs meanwhile, so it takes well under a millisecond and waits for nothing. Whatever it
        raises is as if the target had refused the message: the route's `on_error` decides.
        """
