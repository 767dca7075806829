"""Finds a message on the other side: by its offset, from the offset map, else from the copies; or by its key."""

from __future__ import annotations

from typing import Any, Final

from replicator.client.brokers import max_offset, min_offset
from replicator.client.pull import pull_with_host
from replicator.client.query import query
from replicator.client.queue_range import read_range
from replicator.metadata.offset_map_scan import offset_after_copy
from replicator.observe.moment import moment
from replicator.observe.printable import one_line
from replicator.protocol import properties
from replicator.routing import provenance
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.provenance import Provenance
from replicator.routing.queue_map import Queue
from replicator.routing.task_id import TaskId
from replicator.state.connector_configs import Connector, Unknown
from replicator.state.queue_records import is_about
from replicator.worker.worker import Worker

__all__ = ["NotACopy", "by_key", "by_offset"]

#: Properties that brokers index.
_KEYS: Final = (b"KEYS", b"UNIQ_KEY")
#: Characters that are told of a message's properties.
_TOLD: Final = 500


class NotACopy(Unknown):
    """The message at `place`, in a queue that copies go to, was written there by somebody else."""

    def __init__(self, message: str, *, hint: str, place: dict[str, Any]) -> None:
        super().__init__(message, hint=hint)
        self.place = place


async def by_offset(
    worker: Worker, connector: Connector, topic: str, queue: Queue, offset: int, side: str
) -> dict[str, Any]:
    """Where the message at `offset` of `queue`, which is one of `side`, is on the other side.

    Raises:
        NotACopy: the message at that offset of the target is not a copy of this route; says who has written it.
        Unknown: the queue is not copied, or no copy of the message is known.
        ClientError: the target does not answer, and the map does not go back that far.
    """
    there = side == "source"
    for source, target in worker.store.queue_map(connector.name, topic).items():
        if queue != (source if there else target):
            continue
        key = str(TaskId(connector.name, topic, source))
        held = worker.store.progress(connector.name, key)[1]
        if held is None or not is_about(held, target):
            held = {}  # its copy has not started at its new target
        offsets = OffsetMap(Interval(*interval) for interval in held.get("intervals", ()))
        found = offsets.target_of(offset) if there else offsets.source_of(offset)
        name = worker.store.target_topic(connector.name, topic)
        if found is None:
            copies = _Copies(worker, name, source, target, floor=held.get("target_floor", 0))
            found = await (copies.of(offset) if there else copies.at(offset))
            if found is None and not there:
                await copies.refuse_other(offset)
        if found is None:
            raise Unknown(
                f"offset {offset} of {queue} is not known on the other side",
                hint="it is not copied yet, was filtered out, or is no longer at the target",
            )
        return _place(name if there else topic, target if there else source, found)
    raise Unknown(f"no queue {queue} of topic {topic!r} is copied", hint="GET …/queues lists them")


class _Copies:
    """The copies of the queue `source` in the queue `target` of `topic`; those before `floor` do not count."""

    def __init__(self, worker: Worker, topic: str, source: Queue, target: Queue, *, floor: int) -> None:
        self._place = (worker.context.target.cluster.reader(target.broker), topic, target.queue_id)
        self._wanted = (worker.identity.source, *source)
        self._target = target
        self._floor = floor

    async def of(self, offset: int) -> int | None:
        """The target offset of the copy of a source offset."""
        start, stop = max(self._floor, await min_offset(*self._place)), await max_offset(*self._place)
        begin = await offset_after_copy(*self._place, offset, start=start, stop=stop, mine=self._mine)
        async for message in read_range(*self._place, begin, stop):
            found = provenance.of(message, self._place[1])
            if found is not None and self._mine(found):
                return message.queue_offset if found.offset == offset else None
        return None

    async def at(self, offset: int) -> int | None:
        """The source offset of the copy at a target offset."""
        if offset >= self._floor:
            async for message in read_range(*self._place, offset, offset + 1):
                found = provenance.of(message, self._place[1])
                if found is not None and self._mine(found):
                    return found.offset
        return None

    async def refuse_other(self, offset: int) -> None:
        """Says who has written the message at a target offset, if there is one and it is not a copy of ours.

        Raises:
            NotACopy: so it is.
        """
        broker, topic, queue_id = self._place
        _, message, host = await pull_with_host(broker, topic, queue_id, offset)
        copy = None if message is None else provenance.of(message, topic)
        if message is None or (copy is not None and self._mine(copy)):
            return
        told = ", ".join(f"{name}={value}" for name, value in properties.decode(message.properties).items())
        raise NotACopy(
            f"offset {offset} of {self._target} is not a copy of this route: written by {host},"
            f" stored at {moment(message.store_timestamp / 1000)}",
            hint=f"its properties: {one_line(told)[:_TOLD] or 'none'}",
            place=_place(topic, self._target, offset),
        )

    def _mine(self, found: Provenance) -> bool:
        return found[1:4] == self._wanted


async def by_key(worker: Worker, connector: Connector, topic: str, key: str) -> list[dict[str, Any]]:
    """The copies with `key` that the target has, each with where it came from.

    Raises:
        Unknown: the target has none.
        ClientError: the target does not answer.
    """
    queue_map = worker.store.queue_map(connector.name, topic)
    found = []
    if queue_map:
        name = worker.store.target_topic(connector.name, topic)
        for broker in sorted({target.broker for target in queue_map.values()}):
            for message in await query(worker.context.target.cluster.reader(broker), name, key):
                origin = provenance.of(message, name)
                if origin is None or key.encode() not in _keys(message.properties):
                    continue
                source = Queue(origin.broker, origin.queue_id)
                target = queue_map.get(source)
                # Copies of before a queue was moved are elsewhere, and an index does not say in which queue there.
                if origin.cluster == worker.identity.source and target is not None and target.broker == broker:
                    found.append(
                        {
                            "source": _place(topic, source, origin.offset),
                            "target": _place(name, target, message.queue_offset),
                        }
                    )
    if not found:
        raise Unknown(
            f"the target has no copy with key {key!r} of topic {topic!r}", hint="it may not be copied yet"
        )
    return found


def _keys(raw: bytes) -> list[bytes]:
    return [key for name in _KEYS for key in (properties.find(raw, name) or b"").split()]


def _place(topic: str, queue: Queue, offset: int) -> dict[str, Any]:
    return {"topic": topic, "broker": queue.broker, "queue": queue.queue_id, "offset": offset}
