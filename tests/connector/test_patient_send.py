"""A target that is busy is asked again for a while; whatever else it says ends the send."""

from __future__ import annotations

import asyncio

import pytest

from replicator.client.send import Stored
from replicator.connector.patient_send import send_patiently
from replicator.connector.release_lanes import Refused
from replicator.errors import BrokerRefused, ReplicatorError, RequestTimeout
from replicator.routing.faults import MessageRejected, OutcomeUnknown, TargetBlocked
from tests.support.virtual_time import VirtualLoop

BUSY = BrokerRefused("a:1", 310, 2, "busy")


async def sent(*answers: ReplicatorError | None) -> int:
    """Sends to a broker that answers so, one attempt after the other; how many attempts there were."""
    slots, left, tried = asyncio.Semaphore(1), list(answers), 0

    async def send() -> Stored:
        nonlocal tried
        tried += 1
        assert slots.locked()
        if error := left.pop(0):
            raise error
        return Stored(0, 0)

    await send_patiently(send, slots)
    return tried


def test_a_busy_target_is_asked_again() -> None:
    loop = VirtualLoop()
    assert loop.run_until_complete(sent(BUSY, BUSY, None)) == 3
    assert loop.time() < 2
    with pytest.raises(TargetBlocked):
        loop.run_until_complete(sent(*[BUSY] * 9))
    loop.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (BrokerRefused("a:1", 310, 13, "the message is illegal"), MessageRejected),
        (BrokerRefused("a:1", 310, 1, "system error"), Refused),
        (RequestTimeout("a:1", 310, 10.0), OutcomeUnknown),
    ],
)
async def test_what_else_it_says_ends_the_send(answer: ReplicatorError, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        await sent(answer)
    assert type(raised.value) is error
