"""The independent client's consumer: what its first line is, whatever its threads do meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import sys, threading
from types import SimpleNamespace
from replicator.demo.pyclient import consumer, shim

class PushConsumer:
    def __init__(self, group, orderly): pass
    def set_name_server_address(self, address): pass
    def subscribe(self, topic, listener, expression): self.listener = listener
    def start(self):
        message = SimpleNamespace(
            body=b"early", keys=b"", tags=b"", topic="t", queue_id=0, queue_offset=0, id="",
            born_timestamp=0, store_timestamp=0, reconsume_times=0,
        )
        early = threading.Thread(target=self.listener, args=(message,))
        early.start()
        early.join(0.3)  # to its end, if nothing holds it
    def shutdown(self): pass

client = SimpleNamespace(PushConsumer=PushConsumer, ConsumeStatus=SimpleNamespace(CONSUME_SUCCESS=0))
shim.load = lambda: (client, None, None)
consumer.main()
"""


def test_ready_is_said_before_a_message_that_comes_at_once() -> None:
    """Who reads the lines takes the first one for the sign that it consumes."""
    flags = ("--namesrv", "127.0.0.1:1", "--group", "g", "--topic", "t", "--count", "1")
    command = [sys.executable, "-c", SCRIPT, *flags]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first, second = [json.loads(line) for line in process.stdout]
    assert first == {"ready": True}
    assert second["body"] == "early"
