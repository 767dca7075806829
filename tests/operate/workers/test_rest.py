"""A worker's REST, asked from the command line: what went wrong is told apart."""

from __future__ import annotations

import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from replicator.errors import ConfigError, ReplicatorError, StartupError
from replicator.exit_codes import ExitCode
from replicator.operate.workers.rest import HERE, NotFound, Refused, Rest, Unanswered
from tests.client.peer import unused_port


def test_nobody_is_there() -> None:
    with pytest.raises(StartupError, match="no worker answers at") as refused:
        Rest(f"127.0.0.1:{unused_port()}").get("/status")
    assert refused.value.exit_code is ExitCode.UNUSABLE


def test_an_answer_that_takes_too_long() -> None:
    """What was asked may still go on: it does not look as if nobody were there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        rest = Rest(f"127.0.0.1:{server.getsockname()[1]}", timeout=0.1)
        with pytest.raises(Unanswered, match="has not answered POST /failover within") as refused:
            rest.ask("POST", "/failover")
    assert "may still be running" in refused.value.hint
    assert refused.value.exit_code is ExitCode.UNANSWERED


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, Refused, ExitCode.REFUSED),
        (404, NotFound, ExitCode.REFUSED),
        (503, Refused, ExitCode.REFUSED),
        (504, Unanswered, ExitCode.UNANSWERED),
    ],
)
def test_what_became_of_it(
    status: int, kind: type[ReplicatorError], code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that was refused did nothing; one that takes too long may still be at work."""
    rest = Rest(HERE)
    monkeypatch.setattr(rest, "_once", lambda *_: (status, {}, {"errors": ["why"], "hint": "what to do"}))
    with pytest.raises(kind, match="why: what to do") as refused:
        rest.ask("POST", "/connectors/route/apply")
    assert type(refused.value) is kind
    assert refused.value.exit_code is code


@pytest.mark.parametrize(("status", "kind"), [(504, Unanswered), (502, StartupError)])
def test_a_proxy_that_gives_up(status: int, kind: type[ReplicatorError]) -> None:
    """It says so in a page of its own; a worker that it does not reach has done nothing."""

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_said: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        with pytest.raises(kind) as failed:
            Rest(f"127.0.0.1:{server.server_port}").ask("POST", "/connectors/route/failover", {})
        answering.join()
    assert type(failed.value) is kind


@pytest.fixture(autouse=True)
def _no_token_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("REPLICATOR_REST__")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("token", ["topsecret\n", " topsecret", "topsecret\u20ac", "top\rsecret"])
def test_a_token_that_cannot_be_sent(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is told alone, as a worker does."""
    monkeypatch.setenv("REPLICATOR_REST__TOKEN", token)
    with pytest.raises(ConfigError, match="REPLICATOR_REST__TOKEN has characters") as refused:
        Rest("127.0.0.1:1").get("/status")
    assert "secret" not in str(refused.value).partition("make another one")[0]


def test_a_token_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line end that editors add is not part of it; what cannot be sent is refused all the same."""
    file = tmp_path / "token"
    file.touch(0o600)
    monkeypatch.setenv("REPLICATOR_REST__OPERATE_TOKEN_FILE", str(file))
    file.write_text("given\n")
    assert Rest(HERE)._token == "given"
    file.write_text("given\u20ac\n")
    with pytest.raises(ConfigError, match="REPLICATOR_REST__OPERATE_TOKEN_FILE has characters"):
        Rest(HERE)


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://a b:80", "http://a\x7fb", "http://a:x", "http://a:-1", "//", ""]
)
def test_a_url_that_cannot_be_read(url: str) -> None:
    with pytest.raises(ConfigError, match="is not a URL") as refused:
        Rest(url)
    assert refused.value.hint == "give http://host:port, 8082 by default"


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://[fe80::abcd]", 80), ("https://[::1]", 443), ("http://[::1]:8082", 8082), ("http://[::1]:0", 0)],
)
def test_an_address_of_ipv6(url: str, port: int) -> None:
    """What is behind its last colon is not a port."""
    assert Rest(url)._connection().port == port


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("2", 2), ("0", 0), ("9999", 15), ("Wed, 21 Oct 2026 07:28:00 GMT", 1), ("-1", 1), ("nan", 1)],
)
def test_when_to_ask_again(said: str, seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy may write a date; nobody waits longer than is waited in all."""
    answers = [(409, {"Retry-After": said}, None), (200, {}, "done")]
    slept: list[float] = []
    monkeypatch.setattr(Rest, "_once", lambda *_: answers.pop(0))
    monkeypatch.setattr("time.sleep", slept.append)
    assert Rest(HERE).ask("PUT", "/x") == "done"
    assert slept == [pytest.approx(seconds, abs=0.5)]


@pytest.mark.parametrize("scheme", ["", "http://", "ftp://", "http://u:p/"])
def test_a_url_with_a_password(scheme: str) -> None:
    """It is neither sent nor shown."""
    with pytest.raises((ConfigError, StartupError)) as refused:
        Rest(f"{scheme}u:topsecret@127.0.0.1:{unused_port()}").get("/status")
    assert "127.0.0.1" in str(refused.value)
    assert "topsecret" not in str(refused.value)
