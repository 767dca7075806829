"""Sends the messages that standard input describes, over all queues in turn; see `pyclient.producer`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import uuid
from typing import Any

from replicator.client.cluster import Cluster
from replicator.client.send import new_fields, send_batch
from replicator.client.topics import read_topics
from replicator.demo.clusters import connected
from replicator.errors import ClientError
from replicator.protocol import properties
from replicator.protocol.batch import new_entry
from replicator.routing.message_queue import MessageQueue


async def queues_of(client: Cluster, topic: str) -> list[MessageQueue]:
    """The topic's queues, of all brokers."""
    found = {broker: (await read_topics(client.master(broker))).topics.get(topic) for broker in client.brokers()}
    return [
        MessageQueue(topic, broker, i)
        for broker, config in found.items()
        if config
        for i in range(config.write_queues)
    ]


async def send(client: Cluster, queue: MessageQueue, order: dict[str, Any], *, group: str) -> dict[str, object]:
    """The answer to one line."""
    body, unique = order["body"].encode(), uuid.uuid4().hex.upper()
    named = {
        "KEYS": order.get("keys"),
        "TAGS": order.get("tags"),
        "UNIQ_KEY": unique,
        **order.get("properties", {}),
    }
    raw = properties.encode({name: value for name, value in named.items() if value})
    order_entry = new_entry(body, raw)
    fields = new_fields(queue.topic, queue.queue_id, group=group)
    stored = await send_batch(client.writer(queue.broker), fields, [order_entry])
    return {"msg_id": unique, "offset": stored.offset}


async def run(namesrv: str, group: str) -> None:
    known: dict[str, list[MessageQueue]] = {}
    async with connected(namesrv) as client:
        print(json.dumps({"ready": True}), flush=True)
        number = 0
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            try:
                if not known.get(order["topic"]):
                    known[order["topic"]] = await queues_of(client, order["topic"])
                queues = known[order["topic"]]
                if queues:
                    answer = await send(client, queues[number % len(queues)], order, group=group)
                else:
                    answer = {"error": f"there is no topic {order['topic']}"}
            except ClientError as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            number += 1
            print(json.dumps(answer), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Send messages that come as JSON lines.")
    parser.add_argument("--namesrv", required=True, metavar="HOST:PORT")
    parser.add_argument("--group", required=True)
    options = parser.parse_args()
    asyncio.run(run(options.namesrv, options.group))


if __name__ == "__main__":
    main()
