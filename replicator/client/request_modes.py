"""Request modes: whether consumers of a group that leave balancing to the broker fetch from a topic, or are handed
its messages out one by one. Brokers of 5.x have them, each for itself (`mqadmin setConsumeMode`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from replicator.client.endpoint import Endpoint
from replicator.client.tables import TABLE_TIMEOUT, members
from replicator.errors import BrokerRefused
from replicator.protocol import fastjson
from replicator.protocol.codes import Request, Response

__all__ = ["Modes", "read_request_modes", "write_request_mode"]

#: Per group and topic the settings, called as in `SetMessageRequestModeRequestBody`: `mode` (PULL or POP), and
#: `popShareQueueNum`, how many other consumers' queues each one is handed messages from. None: the broker has none.
Modes = Mapping[str, Mapping[str, Mapping[str, Any]]]

_SETTINGS: Final = ("mode", "popShareQueueNum")


async def read_request_modes(broker: Endpoint) -> Modes | None:
    """All that were set at `broker`; None where it knows of no modes, as 4.9.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: no table of modes.
    """
    try:
        answer = await broker.ask(Request.GET_ALL_MESSAGE_REQUEST_MODE, {}, timeout=TABLE_TIMEOUT)
    except BrokerRefused as error:
        if error.code == Response.REQUEST_CODE_NOT_SUPPORTED:
            return None
        raise
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for topic, groups in members(members(fastjson.parse(answer.body)).get("messageRequestModeMap") or {}).items():
        for group, given in members(groups).items():
            settings = members(given)
            found.setdefault(group, {})[topic] = {name: settings.get(name) for name in _SETTINGS}
    return found


async def write_request_mode(broker: Endpoint, group: str, topic: str, settings: Mapping[str, Any]) -> None:
    """Sets the mode of a group that the master `broker` has, for a topic that it has.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    body = msgspec.json.encode({"topic": topic, "consumerGroup": group, **settings})
    await broker.ask(Request.SET_MESSAGE_REQUEST_MODE, {}, body=(body,))
