"""Damage in the store of a broker that runs: its files are mapped, so it gives out what is written there."""

from __future__ import annotations

from pathlib import Path

from replicator.sandbox import Cluster
from replicator.sandbox.broker import Broker

__all__ = ["Store"]

#: Bytes of an entry of a consume queue: where the message is in the commit log, its size, the hash of its tags.
_ENTRY = 20


class Store:
    """The files of the first broker of `cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        broker: Broker = cluster.brokers[0]
        self._store = broker.home / "store"

    def _queue(self, topic: str, queue_id: int) -> Path:
        return self._store / "consumequeue" / topic / str(queue_id) / f"{0:020d}"

    def entry(self, topic: str, queue_id: int, offset: int) -> bytes:
        """The entry of a message in its consume queue."""
        with self._queue(topic, queue_id).open("rb") as file:
            file.seek(offset * _ENTRY)
            return file.read(_ENTRY)

    def put_entry(self, topic: str, queue_id: int, offset: int, entry: bytes) -> None:
        """Has the queue lead to another message, or to none."""
        with self._queue(topic, queue_id).open("r+b") as file:
            file.seek(offset * _ENTRY)
            file.write(entry)

    def swap(self, topic: str, queue_id: int, one: int, other: int) -> None:
        """Two messages of a queue change places."""
        first, second = (self.entry(topic, queue_id, offset) for offset in (one, other))
        self.put_entry(topic, queue_id, one, second)
        self.put_entry(topic, queue_id, other, first)

    def flip(self, topic: str, queue_id: int, offset: int, *, after: bytes) -> None:
        """Changes the first byte behind `after` in a message."""
        place = int.from_bytes(self.entry(topic, queue_id, offset)[:8])
        logs = {int(log.name): log for log in (self._store / "commitlog").iterdir()}  # named after where they begin
        begin = max(start for start in logs if start <= place)
        place -= begin
        with logs[begin].open("r+b") as file:
            file.seek(place)
            at = place + file.read(4096).index(after) + len(after)
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1]))
