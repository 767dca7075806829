"""Retries of requests to brokers that are down or busy for a while."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from replicator.aio.backoff import Backoff
from replicator.client.cluster import Cluster
from replicator.errors import ReplicatorError, RequestTimeout, Unreachable
from replicator.routing.faults import TargetBlocked, TargetChanged

__all__ = ["PATIENCE", "insist"]

#: Seconds. Spark makes all attempts of a task within a second, so that a broker's restart must fit into one.
PATIENCE: Final = 60.0
#: Seconds between two attempts: the first pause, and the longest.
_PAUSES: Final = (0.05, 2.0)

T = TypeVar("T")


async def insist(cluster: Cluster, place: str, ask: Callable[[], Awaitable[T]]) -> T:
    """The result of `ask`, which is retried for a minute if a broker of `cluster` is down or busy.

    Args:
        place: what is requested, for the error message.

    Raises:
        ReplicatorError: the broker did not come back.
    """
    until, backoff = time.monotonic() + PATIENCE, Backoff(*_PAUSES)
    while True:
        try:
            return await ask()
        except (Unreachable, RequestTimeout, TargetBlocked, TargetChanged) as away:
            if time.monotonic() > until:
                raise ReplicatorError(
                    f"{place}: {away.message}, for {PATIENCE:g} s",
                    hint=away.hint or "check that its broker runs, and run the command again",
                ) from None
        await asyncio.sleep(backoff.next())
        with contextlib.suppress(ReplicatorError):  # its name server may be down too
            await cluster.refresh()
