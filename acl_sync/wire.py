"""Requests that carry secrets: errors are reported without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from acl_sync.model import Secret
from replicator.client.endpoint import Endpoint
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol import fastjson
from replicator.protocol.frame import Frame

__all__ = ["ask", "read_json"]


async def ask(
    broker: Endpoint,
    code: int,
    fields: Mapping[str, str],
    *,
    body: object = None,
    secrets: Iterable[Secret] = (),
) -> Frame:
    """As `Endpoint.ask`; `body` goes as JSON.

    Raises:
        BrokerRefused: its remark has none of `secrets`; 4.9 names the secret that it does not like.
    """
    try:
        return await broker.ask(code, fields, body=() if body is None else (msgspec.json.encode(body),))
    except BrokerRefused as error:
        remark = error.remark
        for secret in secrets:
            if secret.reveal():
                remark = remark.replace(secret.reveal(), "********")
        raise BrokerRefused(error.address, code, error.code, remark) from None


def read_json(answer: Frame, address: str, what: str) -> Any:
    """The JSON in an answer that holds secrets; None where it has no body.

    Raises:
        ProtocolError: it is no JSON; what it is instead is not shown.
    """
    if not answer.body:
        return None
    try:
        return fastjson.parse(answer.body)
    except ProtocolError:
        raise ProtocolError(f"{address} returned an unreadable list of {what}") from None
