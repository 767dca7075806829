"""The floor of thin traffic: one pull of a queue after the other, what it brings sent at once, and nothing else.

No checks, no provenance, no progress, no recovery. It is this project's client: what a route costs above the floor
is the price of its promises.
"""

from __future__ import annotations

import argparse
import asyncio

import uvloop

from replicator.client.connection import Answer, Connection
from replicator.client.endpoint import Endpoint
from replicator.client.pull import PULL_TIMEOUT, SUSPEND, pull_fields, read
from replicator.client.security import Security
from replicator.client.send import SEND_TIMEOUT
from replicator.errors import ClientError
from replicator.protocol import batch
from replicator.protocol.codes import Request


class _Queue:
    """One queue, driven by answers."""

    def __init__(self, source: Connection, target: Connection, topics: tuple[str, str], queue: int) -> None:
        self._source, self._target = source, target
        self._topic, self._target_topic = topics
        self._queue = queue
        self._offset = 0

    def pull(self) -> None:
        fields = pull_fields(self._topic, self._queue, self._offset, count=32, suspend=SUSPEND)
        self._source.request(Request.PULL_MESSAGE, fields, self._pulled, timeout=PULL_TIMEOUT + SUSPEND)

    def _pulled(self, answer: Answer) -> None:
        if isinstance(answer, ClientError):
            raise SystemExit(str(answer))
        pulled = read(answer, self._source.address)
        self._offset = pulled.next_offset
        if not pulled.messages:
            self.pull()
            return
        first = pulled.messages[0]
        fields = batch.header_fields(
            group="bench-floor",
            topic=self._target_topic,
            queue_id=self._queue,
            sys_flag=first.sys_flag,
            born_timestamp=first.born_timestamp,
            reconsume_times=0,
        )
        body = [batch.entry(m.body, m.properties, body_crc=m.body_crc, flag=m.flag) for m in pulled.messages]
        self._target.request(Request.SEND_BATCH_MESSAGE, fields, self._sent, body=body, timeout=SEND_TIMEOUT)

    def _sent(self, answer: Answer) -> None:
        if isinstance(answer, ClientError) or answer.code:
            raise SystemExit(str(answer))
        self.pull()


async def _run(source: str, target: str, topics: tuple[str, str], queues: int) -> None:
    ends = Endpoint(source, Security()), Endpoint(target, Security())
    connections = [await end.connection() for end in ends]
    for queue in range(queues):
        _Queue(connections[0], connections[1], topics, queue).pull()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Pull and send, nothing else.")
    for name in ("source-broker", "target-broker", "topic", "target-topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--queues", type=int, required=True)
    options = parser.parse_args()
    topics = options.topic, options.target_topic
    uvloop.run(_run(options.source_broker, options.target_broker, topics, options.queues))


if __name__ == "__main__":
    main()
