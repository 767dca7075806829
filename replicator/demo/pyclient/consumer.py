"""Prints the messages of a consumer group, with rocketmq-client-python, in a separate process.

One line of JSON a message. Ends on SIGTERM, when its input ends, after --count messages, or after --idle-s
seconds without one. Credentials come from ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY.
The client cannot list a message's properties: --property names one to print.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from replicator.demo.pyclient import shim


class Printer:
    """Called by the client's threads, possibly concurrently."""

    def __init__(self, client: Any, properties: list[str]) -> None:
        self.seen = 0
        self.latest = time.monotonic()
        self._client = client
        self._properties = properties
        #: Held while a line is written.
        self.lock = threading.Lock()

    def __call__(self, message: Any) -> Any:
        text = {"body": message.body, "keys": message.keys, "tags": message.tags}
        text |= {name: message.get_property(name) for name in self._properties}
        shown = {name: (value or b"").decode(errors="replace") for name, value in text.items()}
        line = {
            "topic": message.topic,
            "queue": message.queue_id,
            "offset": message.queue_offset,
            "msg_id": message.id,
            "born": message.born_timestamp,
            "stored": message.store_timestamp,
            "reconsumed": message.reconsume_times,
            **{name: shown[name] for name in ("body", "keys", "tags")},
            "properties": {name: shown[name] for name in self._properties},
        }
        with self.lock:
            print(json.dumps(line), flush=True)
            self.seen += 1
            self.latest = time.monotonic()
        return self._client.ConsumeStatus.CONSUME_SUCCESS


def wait_for_end(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def main() -> None:
    parser = argparse.ArgumentParser(description="Consume as a group and print JSON lines.")
    parser.add_argument("--namesrv", required=True, metavar="HOST:PORT")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--expression", default="*", help="tags, such as 'a || b'")
    parser.add_argument("--property", action="append", default=[], metavar="NAME")
    parser.add_argument("--orderly", action="store_true")
    parser.add_argument("--count", type=int, default=sys.maxsize)
    parser.add_argument("--idle-s", type=float, default=float("inf"))
    options = parser.parse_args()

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    client, _, _ = shim.load()
    printer = Printer(client, options.property)
    consumer = client.PushConsumer(options.group, orderly=options.orderly)
    consumer.set_name_server_address(options.namesrv)
    if access_key := os.environ.get("ROCKETMQ_ACCESS_KEY"):
        consumer.set_session_credentials(access_key, os.environ["ROCKETMQ_SECRET_KEY"], "")
    consumer.subscribe(options.topic, printer, options.expression)
    with printer.lock:  # otherwise an early message could be printed before the first line
        consumer.start()
        print(json.dumps({"ready": True}), flush=True)
    try:
        threading.Thread(target=wait_for_end, args=(stop,), daemon=True).start()
        while not stop.wait(0.05):
            if printer.seen >= options.count or time.monotonic() - printer.latest > options.idle_s:
                break
    finally:
        # Commits offsets; without it the client's threads keep the process running forever.
        consumer.shutdown()
    sys.stdout.flush()
    # The reader of standard input may still hold its lock, and a normal exit would wait for it.
    os._exit(0)


if __name__ == "__main__":
    main()
