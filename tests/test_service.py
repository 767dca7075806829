"""What a worker says of itself before it runs."""

from __future__ import annotations

import socket

import pytest
from structlog.testing import capture_logs

from replicator import service
from replicator.api.server import bind
from replicator.errors import StartupError
from replicator.service import _address, _socket
from replicator.settings import load


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_where_rest_is_found(host: str, shown: str) -> None:
    """In brackets where the host has colons, or it could not be told from the port."""
    try:
        bound = bind(host, 0)
    except StartupError:
        pytest.skip("there is no such address on this machine")
    with bound:
        assert _address(bound) == f"{shown}:{bound.getsockname()[1]}"


def test_another_port_than_the_default_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands would ask at the default one, where somebody else answers or nobody."""

    def bind_other(host: str, port: int) -> socket.socket:
        if port == 8082:
            raise StartupError("in use", hint="")
        return bind(host, port)

    monkeypatch.setattr(service, "bind", bind_other)
    with (
        capture_logs() as logs,
        _socket(load({"source": {"namesrv": "a:1"}, "target": {"namesrv": "b:1"}}, file=None)) as bound,
    ):
        port = bound.getsockname()[1]
    (line,) = logs
    assert (line["default"], line["port"]) == (8082, port)
    assert f"set REPLICATOR_URL=http://127.0.0.1:{port}" in line["hint"]
