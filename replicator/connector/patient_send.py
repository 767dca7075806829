"""A send that a failover makes beside the data path: until the target takes it, or says why it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from replicator.aio.backoff import Backoff
from replicator.client.send import Stored
from replicator.connector.release_lanes import Refused
from replicator.errors import BrokerRefused
from replicator.routing.checked_send import outcome
from replicator.routing.faults import OutcomeUnknown, TargetBlocked, classify_refusal

__all__ = ["send_patiently"]

#: Seconds to wait for a target that is busy, the first time and at most, and how many times: some two seconds.
_PAUSE_FIRST: Final = 0.2
_PAUSE_MOST: Final = 1.0
_BUSY_MOST: Final = 4


async def send_patiently(send: Callable[[], Awaitable[Stored]], slots: asyncio.Semaphore) -> None:
    """Sends until the target takes it, or is busy for two seconds.

    Args:
        slots: limits the requests that are under way; not held during a pause.

    Raises:
        TargetBlocked, MessageRejected: nothing was stored.
        Refused: nor was it, for a reason that may pass or not.
        OutcomeUnknown: it may have been stored or not.
    """
    backoff = Backoff(_PAUSE_FIRST, _PAUSE_MOST)
    while True:
        try:
            async with slots:
                await outcome(_answered(send))
        except TargetBlocked:
            if backoff.attempts == _BUSY_MOST:
                raise
        else:
            return
        await asyncio.sleep(backoff.next())


async def _answered(send: Callable[[], Awaitable[Stored]]) -> Stored:
    """Tells an answer that leaves the outcome open from no answer at all."""
    try:
        return await send()
    except BrokerRefused as error:
        fault = classify_refusal(error)
        if isinstance(fault, OutcomeUnknown):
            raise Refused(fault.message, hint=fault.hint, code=fault.code) from None
        raise fault from None
