"""Request modes as brokers tell them, and as they are set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from replicator.client.endpoint import Endpoint
from replicator.client.request_modes import read_request_modes, write_request_mode
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame


class Broker:
    """Answers with `said`, or refuses with that code; `asked` is what came."""

    def __init__(self, said: bytes | int) -> None:
        self.said = said
        self.asked: list[tuple[int, bytes]] = []

    async def ask(
        self, code: int, _fields: Mapping[str, str], *, body: Sequence[bytes] = (), timeout: float = 3.0
    ) -> Frame:
        assert timeout > 0
        self.asked.append((code, b"".join(body)))
        if isinstance(self.said, int):
            raise BrokerRefused("b:1", code, self.said, "refused")
        return Frame(0, 1, 1, "", {}, self.said)


async def read(said: bytes | int) -> Any:
    return await read_request_modes(cast("Endpoint", Broker(said)))


async def test_they_are_read_by_group_and_topic() -> None:
    """As 5.5.0 says them: fastjson, by topic and group."""
    said = (
        b'{"messageRequestModeMap":{"T":{"G":{"consumerGroup":"G","mode":"POP","popShareQueueNum":3,"topic":"T"},'
        b'"H":{"consumerGroup":"H","mode":"PULL","popShareQueueNum":0,"topic":"T"}}}}'
    )
    assert await read(said) == {
        "G": {"T": {"mode": "POP", "popShareQueueNum": 3}},
        "H": {"T": {"mode": "PULL", "popShareQueueNum": 0}},
    }
    assert await read(b'{"messageRequestModeMap":{}}') == {}


async def test_older_brokers_have_none() -> None:
    assert await read(Response.REQUEST_CODE_NOT_SUPPORTED) is None
    with pytest.raises(BrokerRefused):
        await read(Response.SYSTEM_ERROR)


@pytest.mark.parametrize(
    "said", [b"[]", b'{"messageRequestModeMap":[1]}', b'{"messageRequestModeMap":{"T":{"G":1}}}']
)
async def test_what_is_no_table_is_refused(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        await read(said)


async def test_one_is_set() -> None:
    broker = Broker(b"")
    await write_request_mode(cast("Endpoint", broker), "G", "T", {"mode": "POP", "popShareQueueNum": 3})
    ((code, body),) = broker.asked
    assert code == Request.SET_MESSAGE_REQUEST_MODE
    assert json.loads(body) == {"topic": "T", "consumerGroup": "G", "mode": "POP", "popShareQueueNum": 3}
