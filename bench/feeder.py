"""A producer that costs next to nothing: prepared one-way requests at a steady rate, to random queues."""

from __future__ import annotations

import argparse
import random
import socket
import time
from typing import Final

from replicator.protocol import batch
from replicator.protocol.codes import Request
from replicator.protocol.frame import encode_request

#: Bytes at the start of a body that are its message's number.
DIGITS: Final = 10
#: Seconds between two writes, at least: what is due meanwhile goes out together.
_TICK: Final = 0.001


def feed(address: str, topic: str, *, queues: int, numbers: range, rate: float, size: int) -> None:
    """Sends messages with these numbers, whose bodies have `size` bytes, `rate` a second."""
    host, _, port = address.rpartition(":")
    chosen = random.Random(numbers.start)
    heads: dict[int, bytes] = {}
    with socket.create_connection((host, int(port))) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun, sent = time.monotonic(), 0
        while sent < len(numbers):
            due = min(len(numbers), int((time.monotonic() - begun) * rate) + 1)
            pieces = []
            for number in numbers[sent:due]:
                queue = chosen.randrange(queues)
                if queue not in heads:
                    heads[queue] = _head(topic, queue, size)
                pieces += [heads[queue], b"%0*d" % (DIGITS, number), b"." * (size - DIGITS)]
            line.sendall(b"".join(pieces))
            sent = due
            time.sleep(max(_TICK, begun + sent / rate - time.monotonic()))


def _head(topic: str, queue: int, size: int) -> bytes:
    """All of a request but its body."""
    fields = batch.header_fields(
        group="bench",
        topic=topic,
        queue_id=queue,
        sys_flag=0,
        born_timestamp=int(time.time() * 1000),
        reconsume_times=0,
    )
    fields |= {"h": "0", "i": "KEYS\x01bench\x02", "l": "0", "m": "false"}
    return encode_request(Request.SEND_MESSAGE_V2, 1, fields, body=(bytes(size),), one_way=True)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="Send messages at a steady rate.")
    parser.add_argument("--address", required=True)
    parser.add_argument("--topic", required=True)
    for name in ("queues", "first", "messages", "size"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.messages)
    feed(
        options.address,
        options.topic,
        queues=options.queues,
        numbers=numbers,
        rate=options.rate,
        size=options.size,
    )


if __name__ == "__main__":
    main()
