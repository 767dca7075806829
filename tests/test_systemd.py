"""Whoever does not hear the notifications holds nobody up."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from replicator import systemd


def _fill(address: str) -> None:
    """Sends until the socket takes no more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, contextlib.suppress(BlockingIOError):
        channel.setblocking(False)
        while True:
            channel.sendto(b"", address)


def test_nobody_waits_for_one_that_does_not_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life are left out at once; what is said only once has a moment."""
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, capture_logs() as logs:
        channel.bind(address)
        channel.setblocking(False)
        systemd.ready("replicating")
        _fill(address)
        assert logs == []
        begun = time.monotonic()
        systemd.alive()
        systemd.stopping()
        assert time.monotonic() - begun < 5
        assert [entry["event"] for entry in logs] == ["systemd cannot be notified"] * 2
        assert channel.recv(4096) == b"READY=1\nSTATUS=replicating"
