"""Prints the messages of a topic from its beginning, and new ones as they come; see `pyclient.consumer`.

The project's client reads queues, not groups: `--group` is accepted only to keep the command line the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from replicator.client.cluster import Cluster
from replicator.client.queue_range import read_range
from replicator.client.topics import read_topics
from replicator.demo.clusters import connected
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing.message_queue import MessageQueue

_PAUSE_SECONDS = 0.1


async def read_queue(client: Cluster, queue: MessageQueue, *, shown: Sequence[str]) -> None:
    """Reads one queue forever."""
    offset = 0
    while True:
        async for message in read_range(client.master(queue.broker), queue.topic, queue.queue_id, offset):
            offset = message.queue_offset + 1
            print(json.dumps(line(message, queue.topic, queue_id=queue.queue_id, shown=shown)), flush=True)
        await asyncio.sleep(_PAUSE_SECONDS)


def line(message: StoredMessage, topic: str, *, queue_id: int, shown: Sequence[str]) -> dict[str, object]:
    """Prints one message."""
    named = properties.decode(message.properties)
    return {
        "topic": topic,
        "queue": queue_id,
        "offset": message.queue_offset,
        "msg_id": named.get("UNIQ_KEY", ""),
        "born": message.born_timestamp,
        "stored": message.store_timestamp,
        "reconsumed": message.reconsume_times,
        "body": message.body[4:].decode(errors="replace"),
        "keys": named.get("KEYS", ""),
        "tags": named.get("TAGS", ""),
        "properties": {name: named.get(name, "") for name in shown},
    }


async def run(namesrv: str, topic: str, *, shown: Sequence[str]) -> None:
    async with connected(namesrv) as client, asyncio.TaskGroup() as group:
        readers = [
            group.create_task(read_queue(client, MessageQueue(topic, broker, queue_id), shown=shown))
            for broker in client.brokers()
            if (config := (await read_topics(client.master(broker))).topics.get(topic))
            for queue_id in range(config.queues)
        ]
        print(json.dumps({"ready": True}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for reader in readers:
            reader.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description="Print a topic's messages as JSON lines.")
    parser.add_argument("--namesrv", required=True, metavar="HOST:PORT")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--property", action="append", default=[], metavar="NAME")
    options = parser.parse_args()
    asyncio.run(run(options.namesrv, options.topic, shown=options.property))


if __name__ == "__main__":
    main()
