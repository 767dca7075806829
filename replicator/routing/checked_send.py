"""One send over a connection that was checked, and what each outcome means for the queue."""

from __future__ import annotations

from collections.abc import Awaitable

from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.client.send import Stored
from replicator.errors import BrokerRefused, ProtocolError, RequestTimeout, Unreachable
from replicator.routing.faults import OutcomeUnknown, TargetBlocked, TargetChanged, classify_refusal, code_of

__all__ = ["checked", "outcome"]


async def checked(target: Endpoint, connection: Connection | None) -> Connection:
    """`connection`, if `target` is still reached over it.

    Raises:
        TargetBlocked: the target cannot be reached.
        TargetChanged: there is another connection now, over which nothing was checked yet.
    """
    try:
        found = await target.connection()
    except Unreachable as error:
        raise TargetBlocked(str(error), code=code_of(error)) from None
    if found is not connection:
        raise TargetChanged(f"the connection to {target.address} is a new one: the target is checked first")
    return found


async def outcome(send: Awaitable[Stored]) -> Stored:
    """Where the broker put it.

    Raises:
        TargetBlocked, MessageRejected: nothing was stored.
        OutcomeUnknown: it may have been stored or not. What had not reached the broker by then never will: the
            connection was dropped with it.
    """
    try:
        return await send
    except BrokerRefused as error:
        raise classify_refusal(error) from None
    except (Unreachable, RequestTimeout, ProtocolError) as error:
        raise OutcomeUnknown(str(error), code=code_of(error)) from None
