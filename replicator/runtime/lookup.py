"""Where a message is on the other side: by its offset, from the offset map; by its key, from the target itself."""

from __future__ import annotations

from typing import Any, Final

from replicator.client.query import query
from replicator.protocol import properties
from replicator.routing import provenance
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.queue_map import Queue
from replicator.runtime.connectors import Connector, Unknown
from replicator.runtime.records import Kind
from replicator.runtime.worker import Worker

__all__ = ["by_key", "by_offset"]

#: Properties that brokers index.
_KEYS: Final = (b"KEYS", b"UNIQ_KEY")


def by_offset(
    worker: Worker, connector: Connector, topic: str, queue: Queue, offset: int, side: str
) -> dict[str, Any]:
    """Where the message at `offset` of `queue`, which is one of `side`, is on the other side.

    Raises:
        Unknown: the queue is not copied, or the message is not known to have been.
    """
    there = side == "source"
    for source, target in worker.store.queue_map(connector.name, topic).items():
        if queue != (source if there else target):
            continue
        key = f"{connector.name}/{topic}/{source.broker}/{source.queue_id}"
        held = worker.store.state.get(Kind.OFFSET, key) or {"intervals": []}
        offsets = OffsetMap(Interval(*interval) for interval in held["intervals"])
        found = offsets.target_of(offset) if there else offsets.source_of(offset)
        if found is None:
            raise Unknown(
                f"offset {offset} of {queue.broker}/{queue.queue_id} is not in the offset map",
                hint="it was not copied, was left out, or lies before what the map still holds",
            )
        name = worker.store.target_topic(connector.name, topic) if there else topic
        return _place(name, target if there else source, found)
    raise Unknown(
        f"no queue {queue.broker}/{queue.queue_id} of topic {topic!r} is copied", hint="see the queue map"
    )


async def by_key(worker: Worker, connector: Connector, topic: str, key: str) -> list[dict[str, Any]]:
    """The copies with `key` that the target has, each with where it came from.

    Raises:
        Unknown: there is none.
        ClientError: the target cannot be asked.
    """
    queue_map = worker.store.queue_map(connector.name, topic)
    found = []
    if queue_map:
        name = worker.store.target_topic(connector.name, topic)
        for broker in sorted({target.broker for target in queue_map.values()}):
            for message in await query(worker.world.target.cluster.reader(broker), name, key):
                origin = provenance.read(message.properties)
                if origin is None or key.encode() not in _keys(message.properties):
                    continue
                source = Queue(origin.broker, origin.queue_id)
                if origin.cluster == worker.identity.source and source in queue_map:
                    found.append(
                        {
                            "source": _place(topic, source, origin.offset),
                            "target": _place(name, queue_map[source], message.queue_offset),
                        }
                    )
    if not found:
        raise Unknown(f"the target has no copy with key {key!r} of topic {topic!r}", hint="is it copied already?")
    return found


def _keys(raw: bytes) -> list[bytes]:
    return [key for name in _KEYS for key in (properties.find(raw, name) or b"").split()]


def _place(topic: str, queue: Queue, offset: int) -> dict[str, Any]:
    return {"topic": topic, "broker": queue.broker, "queue": queue.queue_id, "offset": offset}
