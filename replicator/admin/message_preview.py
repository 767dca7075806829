"""One message as it stands on one side, for people: its times and properties, and the beginning of its body."""

from __future__ import annotations

from typing import Any, Final

from replicator.client.pull import pull_with_host
from replicator.errors import ProtocolError
from replicator.protocol import properties
from replicator.protocol.compression import head_of, is_compressed
from replicator.protocol.message import StoredMessage
from replicator.state.connector_configs import Unknown
from replicator.state.known_brokers import Side
from replicator.worker.worker import Worker

__all__ = ["message_at", "preview_of"]

#: Bytes of a body that are shown.
_SHOWN: Final = 2048


async def message_at(worker: Worker, side: Side, place: dict[str, Any], *, with_body: bool) -> dict[str, Any]:
    """The message at `place` of one side.

    Args:
        place: topic, broker, queue and offset.
        with_body: whether the beginning of its body is wanted.

    Raises:
        Unknown: there is none at that offset, any more or yet.
        ClientError: the broker does not answer.
    """
    cluster = (worker.context.source if side == "source" else worker.context.target).cluster
    reader, offset = cluster.reader(place["broker"]), place["offset"]
    pulled, message, host = await pull_with_host(reader, place["topic"], place["queue"], offset)
    if message is not None:
        return _shown(message, host, with_body=with_body)
    bounds = f"has offsets {pulled.min_offset:,} to {pulled.max_offset - 1:,}"
    if pulled.min_offset >= pulled.max_offset:
        bounds = "is empty"
    raise Unknown(
        f"the {side} has no message at offset {offset:,} of {place['topic']}/{place['broker']}/{place['queue']}",
        hint=f"that queue {bounds}",
    )


def _shown(message: StoredMessage, host: str, *, with_body: bool) -> dict[str, Any]:
    found = {
        "stored": message.store_timestamp / 1000,
        "born": message.born_timestamp / 1000,
        "born_host": host,
        "size": message.body_length,
        "compressed": is_compressed(message.sys_flag),
        "properties": properties.decode(message.properties),
        "body": None,
        "body_kind": "",
        "body_cut": False,
    }
    return found | (preview_of(message.content, message.sys_flag) if with_body else {})


def preview_of(body: bytes, sys_flag: int) -> dict[str, Any]:
    """The beginning of a body: as text if it is UTF-8, else as hexadecimal digits."""
    try:
        whole, kind = head_of(body, sys_flag, _SHOWN + 1), ""
    except ProtocolError as error:
        whole, kind = body, f"; it {error.message}"
    head = whole[:_SHOWN]
    for cut in range(4):  # the last character may be cut in two
        try:
            text = head[: len(head) - cut].decode()
        except UnicodeDecodeError:
            if len(whole) <= _SHOWN:
                break
        else:
            return {"body": text, "body_kind": f"text{kind}", "body_cut": len(whole) > _SHOWN}
    return {"body": head.hex(" ", 4), "body_kind": f"hexadecimal{kind}", "body_cut": len(whole) > _SHOWN}
