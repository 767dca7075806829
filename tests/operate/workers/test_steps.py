"""Who waits for a failover sees what the worker does; without that the command is the same."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from replicator.command_output import Output
from replicator.operate.workers import sync
from replicator.operate.workers.rest import Rest
from replicator.operate.workers.steps import step_of


def event(what: str, connector: str, **details: str) -> dict[str, Any]:
    at = "2026-11-29T18:30:05.123456Z"
    return {"at": at, "event": what, "details": {"connector": connector, **details}}


class Worker(BaseHTTPRequestHandler):
    """Fails over once its steps are followed, if it gives them: what is read of an answer then has come before."""

    protocol_version = "HTTP/1.1"
    feeds = True
    said: threading.Event
    over: threading.Event

    def do_GET(self) -> None:
        self.send_response(200 if self.feeds else 503)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if not self.feeds:
            self.wfile.write(b"0\r\n\r\n")
            return
        for each in (
            event("failover begins", "route", topics="[]"),
            event("began", "other"),
            event("b", "route", n="7"),
        ):
            data = b"id: 1\ndata: " + json.dumps(each).encode() + b"\n\n"
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.said.set()
        self.over.wait(20)  # a feed does not end by itself

    def do_POST(self) -> None:
        assert not self.feeds or self.said.wait(20)
        told = json.dumps({"body": {"stopped": True}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_said: object) -> None:
        """Says nothing."""


@pytest.fixture
def worker() -> Iterator[type[Worker]]:
    gc.collect()  # else Python may warn on standard error of what tests before have left open

    class Own(Worker):
        said, over = threading.Event(), threading.Event()

    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        Own.port = server.server_port  # type: ignore[attr-defined]
        yield Own
        Own.over.set()
        server.shutdown()
        thread.join()


def fail_over(worker: Any, output: Output = Output.TABLE) -> dict[str, Any]:
    return sync.fail_over(Rest(f"127.0.0.1:{worker.port}"), "route", {}, output)


def test_steps_are_shown_while_one_waits(worker: type[Worker], capfd: pytest.CaptureFixture[str]) -> None:
    """On standard error: standard output has the report alone. Those of other connectors are not its steps."""
    assert fail_over(worker) == {"stopped": True}
    shown = capfd.readouterr()
    assert (shown.out, shown.err.splitlines()) == ("", ["18:30:05  failover begins", "18:30:05  b  n=7"])


def test_without_a_feed_it_is_done_all_the_same(worker: type[Worker], capfd: pytest.CaptureFixture[str]) -> None:
    worker.feeds = False
    assert fail_over(worker) == {"stopped": True}
    assert capfd.readouterr().err == ""


def test_programs_get_the_report_alone(worker: type[Worker], capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever they do with standard error."""
    worker.said.set()
    assert fail_over(worker, Output.JSON) == {"stopped": True}
    assert capfd.readouterr().err == ""


def test_a_step_is_one_line_that_a_terminal_can_show() -> None:
    assert step_of(event("stops", "route", reason="a\nb\x1b[2J"), "route") == "18:30:05  stops  reason=a b [2J"
