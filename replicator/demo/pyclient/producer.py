"""Sends the messages that standard input describes, with rocketmq-client-python, in a separate process.

One line of JSON a message: {"topic", "body", "keys", "tags", "properties", "delay_level"}, all but topic and
body optional. Each is answered by one line: {"msg_id", "offset"}, or {"error"}. Ends when its input ends.
Credentials come from ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from replicator.demo.pyclient import shim


def send(client: Any, library: Any, producer: Any, order: dict[str, Any]) -> dict[str, object]:
    """Sends one message; raises the client's own errors."""
    # The library silently truncates a body at its first NUL.
    if "\0" in order["body"]:
        return {"error": "a body with a NUL cannot be sent by this client"}
    message = client.Message(order["topic"])
    try:
        message.set_body(order["body"])
        if keys := order.get("keys"):
            message.set_keys(keys)
        if tags := order.get("tags"):
            message.set_tags(tags)
        if level := order.get("delay_level"):
            message.set_delay_time_level(level)
        for name, value in order.get("properties", {}).items():
            message.set_property(name, value)
        result = producer.send_sync(message)
    finally:
        # The client never frees its messages.
        library.DestroyMessage(message._handle)  # noqa: SLF001
    return {"msg_id": result.msg_id, "offset": result.offset}


def main() -> None:
    parser = argparse.ArgumentParser(description="Send messages that come as JSON lines.")
    parser.add_argument("--namesrv", required=True, metavar="HOST:PORT")
    parser.add_argument("--group", default="python-producer")
    options = parser.parse_args()
    client, library, failure = shim.load()
    producer = client.Producer(options.group)
    producer.set_name_server_address(options.namesrv)
    if access_key := os.environ.get("ROCKETMQ_ACCESS_KEY"):
        producer.set_session_credentials(access_key, os.environ["ROCKETMQ_SECRET_KEY"], "")
    producer.start()
    try:
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            try:
                answer = send(client, library, producer, json.loads(line))
            except failure as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)
    finally:
        # Without it the client's threads keep the process running forever.
        producer.shutdown()


if __name__ == "__main__":
    main()
