"""Which two clusters these are: their ids, and that they are two."""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Mapping
from typing import Any

from replicator.client.cluster import Topology
from replicator.errors import StartupError
from replicator.observe.logging import get_logger
from replicator.routing.options import Identity
from replicator.settings import Settings, valid_id

__all__ = [
    "group_name",
    "identify",
    "is_of_group",
    "refuse_other_group",
    "refuse_other_ids",
    "refuse_same_cluster",
    "refuse_same_names",
    "worker_id",
]

log = get_logger(__name__)


def refuse_same_cluster(source: Topology, target: Topology) -> None:
    """Brokers register under one address, whatever name servers and host names lead to them.

    Raises:
        StartupError: source and target share a broker.
    """
    ours = {address: broker.name for broker in source.brokers.values() for address in broker.addresses.values()}
    for broker in target.brokers.values():
        for address in broker.addresses.values():
            if address in ours:
                raise StartupError(
                    f"source and target are the same cluster: both have the broker {ours[address]} at {address}",
                    hint="give another cluster's name servers with --target",
                )


def refuse_same_names(settings: Settings, source: Topology, target: Topology) -> None:
    """A Proxy does not tell where its brokers are, so names have to show that source and target are two clusters.

    Raises:
        StartupError: cluster and brokers are called the same on both sides, and nobody has said that they are two.
    """
    same = sorted(source.brokers.keys() & target.brokers.keys())
    if source.cluster == target.cluster and same and not (settings.source.id and settings.target.id):
        raise StartupError(
            f"source and target may be the same cluster: both are called {source.cluster} and have a broker"
            f" {same[0]}, and a Proxy does not tell where its brokers are",
            hint="if they are two, set --source-id and --target-id",
        )


def identify(settings: Settings, source: Topology, target: Topology, known: Mapping[str, Any]) -> Identity:
    """The ids that stand in provenance.

    Args:
        known: what the store has kept of an earlier run.

    Raises:
        StartupError: they are not those of the earlier run, or equal.
    """
    ours, theirs = settings.source.id or source.cluster, settings.target.id or target.cluster
    if ours == theirs and not (settings.source.id and settings.target.id):
        ours = settings.source.id or f"{ours}@{settings.source.namesrv[0]}"
        theirs = settings.target.id or f"{theirs}@{settings.target.namesrv[0]}"
        log.warning(
            "both clusters have the same name; set source.id and target.id to permanent ids",
            name=source.cluster,
            source_id=ours,
            target_id=theirs,
        )
    if ours == theirs:
        raise StartupError(
            f"source.id and target.id are both {ours!r}",
            hint="give the clusters different ids, or loops could not be detected",
        )
    for side, identity in (("source", ours), ("target", theirs)):
        if not valid_id(identity):
            raise StartupError(
                f"the {side} cluster's name {identity!r} cannot be its id", hint=f"give it one with --{side}-id"
            )
    refuse_other_ids(Identity(ours, theirs), known)
    return Identity(ours, theirs)


def refuse_other_ids(identity: Identity, known: Mapping[str, Any]) -> None:
    """A store belongs to two clusters.

    Args:
        known: what the store has kept of an earlier run.

    Raises:
        StartupError: they were others.
    """
    for field, new in (("source_id", identity.source), ("target_id", identity.target)):
        old = known.get(field)
        if old is not None and old != new:
            raise StartupError(
                f"the store was written for {field} {old!r}, this is {new!r}",
                hint=f"set {field.replace('_', '.')} to {old!r} if it is that cluster, or name another store_path",
            )


def group_name(settings: Settings, identity: Identity) -> str:
    """The worker group's name: the one that it was given, or one made of the two ids."""
    return settings.worker_group or f"{identity.source}-{identity.target}"


def is_of_group(settings: Settings, known: Mapping[str, Any]) -> bool:
    """Whether a store may be of the worker group that `settings` name, by what it has kept of an earlier run."""
    if not {"group", "source_id", "target_id"} <= known.keys():
        return True
    return bool(known["group"] == group_name(settings, Identity(known["source_id"], known["target_id"])))


def refuse_other_group(group: str, known: Mapping[str, Any]) -> None:
    """A store belongs to one worker group: what it knows would be published to another one, as its own.

    Args:
        known: what the store has kept of an earlier run.

    Raises:
        StartupError: it was another group.
    """
    old = known.get("group")
    if old is not None and old != group:
        raise StartupError(
            f"the store was written for worker_group {old!r}, this is {group!r}",
            hint=f"set worker_group to {old!r} if it is that group, or name another store_path",
        )


def worker_id(settings: Settings, known: Mapping[str, Any]) -> str:
    """This worker's name in its group: the one it was given, or one made once and kept in the store."""
    host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:60]
    return settings.worker_id or known.get("worker") or f"{host}-{secrets.token_hex(3)}"
