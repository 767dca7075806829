"""What the commands of the sandbox print as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from replicator.command_output import Report

__all__ = [
    "ClusterReport",
    "Consumed",
    "ProcessReport",
    "ProcessState",
    "Produced",
    "SandboxDown",
    "SandboxReport",
    "TopicHeld",
    "TopicMade",
]

ProcessState = Literal["running", "does not answer", "ended"]


class ProcessReport(Report):
    """A process of a cluster."""

    name: str
    role: Literal["name server", "master", "slave", "replica", "proxy"]
    address: str
    pid: int
    state: ProcessState


class ClusterReport(Report):
    """A cluster, and what its clients need."""

    name: str
    version: Annotated[str, Field(description="of RocketMQ")]
    access_key: Annotated[str | None, Field(description="null: it checks no accounts")]
    secret_key: str | None
    ca_file: Annotated[str | None, Field(description="certificate authority; null: connections without TLS")]
    processes: list[ProcessReport]


class SandboxReport(Report):
    """The clusters that `sandbox up` has started."""

    clusters: list[ClusterReport]


class TopicMade(Report):
    """A topic that a cluster has now."""

    cluster: str
    topic: str
    queues: Annotated[int, Field(description="on all brokers together")]


class TopicHeld(Report):
    """A topic of a cluster."""

    cluster: str
    topic: str
    queues: Annotated[int, Field(description="on all brokers together")]
    messages: Annotated[int, Field(description="those that are still there")]
    perms: Annotated[list[int], Field(description="one where all brokers agree; 6: read and write, 4: read alone")]


class Produced(Report):
    """What was sent."""

    cluster: str
    topic: str
    messages: int
    first: Annotated[int, Field(description="number of the first one")]


class Consumed(Report):
    """A message of a topic."""

    broker: str
    queue: int
    offset: int
    keys: str
    body: str
    copied_from: Annotated[
        str | None, Field(description="cluster/broker/queue/offset/store time (ms) at the source; null: no copy")
    ]


class SandboxDown(Report):
    """The clusters that were stopped and deleted."""

    ended: list[str]
