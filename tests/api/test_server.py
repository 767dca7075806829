"""REST's server: what it cannot serve with is told before anything else is."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from replicator.api.server import Server, bind
from replicator.errors import ConfigError, StartupError
from replicator.sandbox import tls
from replicator.settings.rest import RestTls
from tests.support.worker import until


async def _application(_scope: Any, _receive: Any, _send: Any) -> None:
    raise AssertionError("nobody asks")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tls.TlsFiles:
    return tls.make(tmp_path_factory.mktemp("tls"), client_auth=True)


@pytest.fixture
def made(files: tls.TlsFiles, tmp_path: Path, request: pytest.FixtureRequest) -> RestTls:
    """Settings in which one file is wrong."""
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    right = {"cert_file": files.client_cert, "key_file": files.client_key, "ca_file": files.ca}
    wrong = {"garbage": garbage, "another's": files.ca}[request.param[1]]
    return RestTls(**{**right, request.param[0]: wrong})


@pytest.mark.parametrize(
    "made",
    [("cert_file", "garbage"), ("key_file", "garbage"), ("ca_file", "garbage"), ("cert_file", "another's")],
    indirect=True,
)
def test_wrong_files_are_told_at_the_start(made: RestTls) -> None:
    with bind("127.0.0.1", 0) as sock, pytest.raises(StartupError) as raised:
        Server(_application, sock, made)
    for name, value in made.model_dump().items():
        assert f"rest.tls.{name} = {str(value)!r}" in raised.value.message


def test_right_files_are_taken(files: tls.TlsFiles) -> None:
    settings = RestTls(cert_file=files.client_cert, key_file=files.client_key, ca_file=files.ca)
    with bind("127.0.0.1", 0) as sock:
        assert Server(_application, sock, settings).url.startswith("https://127.0.0.1:")


async def test_a_renewed_certificate_is_shown(files: tls.TlsFiles, tmp_path: Path) -> None:
    """To connections that are made from then on; one whose key is not there yet changes nothing."""
    used, fresh = tmp_path / "used", tls.make(tmp_path / "fresh", client_auth=True)
    used.mkdir()
    cert, key = used / "cert.pem", used / "key.pem"
    cert.write_bytes(files.client_cert.read_bytes())
    key.write_bytes(files.client_key.read_bytes())

    async def hello(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    with bind("127.0.0.1", 0) as sock:
        server = Server(hello, sock, RestTls(cert_file=cert, key_file=key))
        serving = asyncio.create_task(server.run_on_socket())
        await until(lambda: server.started)
        address = sock.getsockname()

        async def shown() -> str:
            return await asyncio.to_thread(ssl.get_server_certificate, address)

        before = await shown()
        cert.write_bytes(fresh.client_cert.read_bytes())
        with pytest.raises(ConfigError, match=r"rest\.tls\.cert_file"):
            server.renew_certificate()
        assert await shown() == before
        key.write_bytes(fresh.client_key.read_bytes())
        server.renew_certificate()
        assert await shown() != before
        server.should_exit = True
        await serving


async def test_a_request_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first on a connection, and one after another; one that comes in parts, in time, is served."""

    async def hello(_scope: Any, _receive: Any, send: Any) -> None:
        await asyncio.sleep(0.5)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    monkeypatch.setattr("replicator.api.server._TimedProtocol.header_seconds", 0.3)
    with bind("127.0.0.1", 0) as sock:
        server = Server(hello, sock, RestTls())
        serving = asyncio.create_task(server.run_on_socket())
        await until(lambda: server.started)
        head = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
        for first in (b"", head, head + b"\r\n" + head):
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            writer.write(first)
            answer = await asyncio.wait_for(reader.read(), 5)
            assert answer.startswith(b"HTTP/1.1 200") == (first.count(b"GET") == 2)
            writer.close()
        reader, writer = await asyncio.open_connection(*sock.getsockname())
        for part in (head[:10], head[10:], b"\r\n"):
            writer.write(part)
            await asyncio.sleep(0.05)
        assert await asyncio.wait_for(reader.readline(), 5) == b"HTTP/1.1 200 OK\r\n"
        writer.close()
        server.should_exit = True
        await serving


async def test_a_request_that_goes_on_does_not_keep_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that takes an hour, nor a client that does not read its answers."""

    async def answer(scope: Any, _receive: Any, send: Any) -> None:
        if scope["path"] == "/hour":
            await asyncio.sleep(3600)
        size = 64 * 1024 * 1024
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": bytes(size)})

    monkeypatch.setattr("replicator.api.server._LAST_ANSWERS", 1)
    with bind("127.0.0.1", 0) as sock:
        server = Server(answer, sock, RestTls())
        serving = asyncio.create_task(server.run_on_socket())
        await until(lambda: server.started)
        clients = []
        for path in (b"/hour", b"/large"):
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
            clients.append(writer)
        await until(lambda: len(server.server_state.connections) == 2)
        await until(lambda: len(server.server_state.tasks) == 1)
        server.should_exit = True
        await asyncio.wait_for(serving, 10)
        for writer in clients:
            writer.transport.abort()


async def test_nobody_chooses_the_address_that_the_log_names() -> None:
    """Not even from this machine, as if it were a proxy."""
    peers: list[Any] = []

    async def hello(scope: Any, _receive: Any, send: Any) -> None:
        peers.append(scope["client"][0])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    with bind("127.0.0.1", 0) as sock:
        server = Server(hello, sock, RestTls())
        serving = asyncio.create_task(server.run_on_socket())
        await until(lambda: server.started)
        reader, writer = await asyncio.open_connection(*sock.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 10.0.0.9\r\n\r\n")
        await asyncio.wait_for(reader.readline(), 5)
        assert peers == ["127.0.0.1"]
        writer.close()
        server.should_exit = True
        await serving
