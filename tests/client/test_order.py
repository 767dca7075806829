"""Order configurations at several name servers: what each has is told apart, and written to one alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replicator.client.nameservers import NameServers
from replicator.client.order import NAMESPACE, delete_order, read_orders, write_order
from replicator.client.security import Security
from replicator.errors import BrokerRefused
from replicator.protocol.codes import Request
from replicator.protocol.frame import Frame
from tests.client.peer import Peer, Session


class KeyValues:
    """What a name server keeps by namespace, as `KVConfigManager`: one that nobody has written to is not found."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, str]] = {}
        self.refuses = False

    def __call__(self, session: Session, request: Frame) -> None:
        fields: Any = request.fields
        of = self.kept.get(fields["namespace"])
        if self.refuses:
            session.answer(request, 16, remark="no right")
        elif request.code == Request.PUT_KV_CONFIG:
            self.kept.setdefault(fields["namespace"], {})[fields["key"]] = fields["value"]
            session.answer(request)
        elif request.code == Request.DELETE_KV_CONFIG:
            (of or {}).pop(fields["key"], None)
            session.answer(request)
        elif of is None:
            session.answer(request, 22, remark="No config item")
        else:
            assert request.code == Request.GET_KVLIST_BY_NAMESPACE
            session.answer(request, body=json.dumps({"table": of}).encode())


async def test_written_read_and_deleted() -> None:
    one, two = KeyValues(), KeyValues()
    two.kept["others"] = {"T": "no order"}
    async with Peer(one) as first, Peer(two) as second:
        servers = NameServers([first.address, second.address], Security())
        assert await read_orders(servers) == ({first.address: {}, second.address: {}}, {})
        await write_order(servers, second.address, "T", "a:8;b:8")
        await write_order(servers, second.address, "U", "a:1")
        assert two.kept[NAMESPACE] == {"T": "a:8;b:8", "U": "a:1"}
        assert (await read_orders(servers)).tables == {first.address: {}, second.address: two.kept[NAMESPACE]}
        for topic in ("T", "U", "never there"):
            await delete_order(servers, second.address, topic)
            await delete_order(servers, first.address, topic)
        assert (two.kept, one.kept) == ({NAMESPACE: {}, "others": {"T": "no order"}}, {})
        assert (await read_orders(servers)).tables == {first.address: {}, second.address: {}}
        await servers.close()


@pytest.mark.parametrize("body", [b'{"table":[]}', b'{"table":{"T":1}}', b'{"table":null}', b"[]", b"{", b""])
async def test_what_cannot_be_read_is_no_answer(body: bytes) -> None:
    """Nor is a refusal: nothing would be taken for deleted by it."""
    refusing = KeyValues()
    refusing.refuses = True
    async with Peer(lambda session, request: session.answer(request, body=body)) as odd, Peer(refusing) as guarded:
        servers = NameServers([odd.address, guarded.address], Security())
        tables, failures = await read_orders(servers)
        assert tables == {}
        assert failures.keys() == {odd.address, guarded.address}
        assert "no right" in failures[guarded.address]
        with pytest.raises(BrokerRefused, match="no right"):
            await write_order(servers, guarded.address, "T", "a:8")
        await servers.close()
