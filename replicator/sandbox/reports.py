"""What the commands of the sandbox print as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from replicator.command_output import Report

__all__ = ["ClusterReport", "ProcessReport", "ProcessState", "SandboxDown", "SandboxReport"]

ProcessState = Literal["running", "does not answer", "ended"]


class ProcessReport(Report):
    """A process of a cluster."""

    name: str
    role: Literal["name server", "master", "slave", "replica"]
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


class SandboxDown(Report):
    """The clusters that were stopped and deleted."""

    ended: list[str]
