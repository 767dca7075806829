"""A worker's REST, asked from the command line: what went wrong is told apart."""

from __future__ import annotations

import socket

import pytest

from replicator.operate.rest import Refused, Rest
from tests.client.peer import unused_port


def test_nobody_is_there() -> None:
    with pytest.raises(Refused, match="no replicator answers at"):
        Rest(f"127.0.0.1:{unused_port()}").get("/status")


def test_an_answer_that_takes_too_long() -> None:
    """What was asked may still go on: it does not look as if nobody were there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        rest = Rest(f"127.0.0.1:{server.getsockname()[1]}", timeout=0.1)
        with pytest.raises(Refused, match="has not answered POST /failover within") as refused:
            rest.ask("POST", "/failover")
    assert "may still be at it" in refused.value.hint
