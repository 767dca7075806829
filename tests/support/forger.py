"""Somebody who may write to the system topics, and is not a worker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from replicator.client.cluster import Cluster as Client
from replicator.group.membership import Heartbeat
from replicator.group.signature import Signer
from replicator.group.wire import read_message, write_heartbeat
from replicator.sandbox import Cluster
from replicator.state.record import Kind
from tests.support.traffic import raw_topic, send

__all__ = ["CONTROL", "SINK", "SOURCE", "SYSTEM", "Forger", "recorded", "records", "told_positions"]

CONTROL: Final = "replicator_sys_control"
SOURCE: Final = "replicator_sys_source_online"
SINK: Final = "replicator_sys_sink_online"
SYSTEM: Final = (CONTROL, SOURCE, SINK)


def records(group: str, *what: tuple[str, str, Any, Any]) -> bytes:
    """Records as nobody would write them."""
    return json.dumps({"version": 1, "group": group, "worker": "evil", "records": what}).encode()


async def recorded(cluster: Cluster) -> dict[str, list[bytes]]:
    """All that stands on the system topics, to be written once more."""
    return {
        topic: [message.body[4:] for queue in (await raw_topic(cluster, topic)).values() for message in queue]
        for topic in SYSTEM
    }


async def told_positions(cluster: Cluster, group: str) -> bool:
    """Whether a worker of `group` has said how far it is. One that hears another secret before that gives way."""
    said = [body.partition(b"\n") for body in (await recorded(cluster))[CONTROL]]
    told = [read_message(body) for line, _, body in said if line.endswith(b" " + group.encode())]
    return any(record.kind is Kind.POSITION for each in told for record in each.records()[0])


class Forger:
    """Writes over `client` to `broker`, in batches, of which brokers of 4.9 ask no right."""

    def __init__(self, client: Client, broker: str, signer: Signer | None = None) -> None:
        self._client = client
        self._broker = broker
        self._signer = signer or Signer()

    async def say(self, topic: str, body: bytes, *, group: str) -> None:
        """A message, signed with the forger's own secret if there is one."""
        await self.write(topic, [self._signer.sign(topic, group, body)])

    async def write(self, topic: str, bodies: Iterable[bytes]) -> None:
        """Bodies as they are."""
        await send(self._client, self._broker, topic, 0, [(body, {}) for body in bodies])

    async def beat(self, group: str, worker: str, sequence: int, **said: Any) -> None:
        """A heartbeat of a worker that there may be or not."""
        beat = Heartbeat(worker=worker, incarnation=f"evil-{worker}", sequence=sequence, **said)
        for topic in (SOURCE, SINK):
            await self.say(topic, write_heartbeat(group, beat), group=group)
