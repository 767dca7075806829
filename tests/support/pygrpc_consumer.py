"""Run by `pygrpc`, with the official client's package on the path: a line of JSON for each message received."""

from __future__ import annotations

import json
import os
import sys
import time

from rocketmq.v5.client import ClientConfiguration, Credentials  # type: ignore[import-not-found]
from rocketmq.v5.consumer import SimpleConsumer  # type: ignore[import-not-found]
from rocketmq.v5.exception import InternalErrorException  # type: ignore[import-not-found]
from rocketmq.v5.model import FilterExpression  # type: ignore[import-not-found]

#: Seconds that a broker waits for messages, without any until the end, and that received ones are invisible.
_WAITS, _IDLE, _INVISIBLE = 3, 15, 120


def main() -> None:
    proxy, topic, group, count, hold = sys.argv[1:]
    held = set(hold.split(","))
    consumer = SimpleConsumer(
        ClientConfiguration(proxy, Credentials()), group, {topic: FilterExpression()}, await_duration=_WAITS
    )
    consumer.startup()
    received, last = 0, time.monotonic()
    while time.monotonic() - last < _IDLE and not received >= int(count) > 0:
        try:
            messages = consumer.receive(1, _INVISIBLE)
        except InternalErrorException:  # a Proxy that has not heard its settings yet
            time.sleep(0.2)
            continue
        for message in messages:
            body = message.body.decode()
            if body not in held:
                consumer.ack(message)
            line = {
                "body": body,
                "attempt": message.delivery_attempt,
                "group": message.message_group or "",
                "acknowledged": body not in held,
            }
            print(json.dumps(line), flush=True)
            received, last = received + 1, time.monotonic()
    os._exit(0)  # without giving anything back, as if its machine had failed


if __name__ == "__main__":
    main()
