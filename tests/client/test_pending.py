"""What brokers say of messages that they hold back; fastjson's tables have numbers as names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from replicator.client.endpoint import Endpoint
from replicator.client.pending import delivered_levels, timer_counts
from replicator.client.security import Security
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame
from tests.client.peer import Peer, Session


async def asked(question: Callable[[Endpoint], Awaitable[Any]], body: bytes, *, code: int = 0) -> Any:
    def answer(session: Session, request: Frame) -> None:
        session.answer(request, code=code, body=body)

    async with Peer(answer) as peer:
        endpoint = Endpoint(peer.address, Security())
        try:
            return await question(endpoint)
        finally:
            await endpoint.close()


async def test_levels_that_were_never_delivered_are_missing() -> None:
    body = b'{"dataVersion":{"counter":7},"offsetTable":{1:12,18:0,3:22}}'
    assert await asked(delivered_levels, body) == {1: 12, 18: 0, 3: 22}


async def test_topics_of_a_timer() -> None:
    body = b'{"timingCount":{"orders":{"count":20,"timeStamp":1},"x":{"count":-1,"timeStamp":1}}}'
    assert await asked(timer_counts, body) == {"orders": 20, "x": -1}


@pytest.mark.parametrize("code", [Response.REQUEST_CODE_NOT_SUPPORTED, Response.SYSTEM_ERROR])
async def test_brokers_without_a_timer_have_no_messages_in_it(code: int) -> None:
    assert await asked(timer_counts, b"", code=code) == {}


async def test_what_may_not_be_asked_is_not_none() -> None:
    for question in (timer_counts, delivered_levels):
        with pytest.raises(BrokerRefused):
            await asked(question, b"", code=Response.NO_PERMISSION)


@pytest.mark.parametrize(
    ("question", "body"),
    [
        (delivered_levels, b'{"offsetTable":[1]}'),
        (delivered_levels, b'{"offsetTable":{"one":1}}'),
        (timer_counts, b'{"timingCount":{"a":{}}}'),
        (timer_counts, b'{"timingCount":{"a":7}}'),
        (delivered_levels, b'{"offsetTable":{"1":1e300}}'),
        (timer_counts, b'{"timingCount":{"a":{"count":1e308}}}'),
    ],
)
async def test_other_answers_are_refused(question: Any, body: bytes) -> None:
    with pytest.raises(ProtocolError):
        await asked(question, body)
