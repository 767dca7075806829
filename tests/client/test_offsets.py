"""Consumer offsets as brokers tell them, and what they say of one that is committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from replicator.client.endpoint import Endpoint
from replicator.client.offsets import OffsetTable, commit_offset, read_offsets
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol.codes import Request
from replicator.protocol.frame import Frame


class Broker:
    """Answers with a body and a remark; `asked` is what came."""

    address = "b:1"

    def __init__(self, body: bytes = b"", remark: str = "") -> None:
        self.body, self.remark = body, remark
        self.asked: list[tuple[int, Mapping[str, str]]] = []

    async def ask(self, code: int, fields: Mapping[str, str], **_: object) -> Frame:
        self.asked.append((code, fields))
        return Frame(0, 1, 1, self.remark, {}, self.body)


async def read(body: bytes, known: OffsetTable | None = None) -> OffsetTable:
    return await read_offsets(cast("Endpoint", Broker(body)), known=known)


async def test_they_are_read_by_group_and_topic() -> None:
    body = b'{"offsetTable":{"T@G":{0:5,1:7},"%RETRY%G@G":{0:1}}}'
    table = await read(body)
    assert table.offsets == {("G", "T"): {0: 5, 1: 7}, ("G", "%RETRY%G"): {0: 1}}
    assert await read(body, table) is table


async def test_those_of_consumers_in_broadcasting_mode_are_no_groups() -> None:
    """5.x with `enableBroadcastOffsetStore`: nobody can commit them, nor is there a group of that name."""
    assert (await read(b'{"offsetTable":{"T@G@broadcast":{0:5},"T@G":{0:6}}}')).offsets == {("G", "T"): {0: 6}}


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"offsetTable":{"T":{0:5}}}',
        b'{"offsetTable":{"T@G":{0:"x"}}}',
        b'{"offsetTable":{"T@G":{0:1e300}}}',
        b'{"offsetTable":{"T@G":{0:9223372036854775808}}}',
    ],
)
async def test_what_is_no_table_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        await read(body)


async def commit(remark: str) -> Any:
    broker = Broker(remark=remark)
    await commit_offset(cast("Endpoint", broker), "G", "T", 3, 40)
    return broker.asked


async def test_one_is_committed() -> None:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": "3", "commitOffset": "40"}
    assert await commit("") == [(Request.UPDATE_CONSUMER_OFFSET, fields)]


async def test_one_that_was_ignored_is_refused() -> None:
    """As 5.3.3 answers, with success, where an administrator has reset the group and no consumer has come since."""
    with pytest.raises(BrokerRefused, match="a consumer must take that first"):
        await commit("Offset has been previously reset")
