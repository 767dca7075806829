"""A worker under systemd's eyes: it says when it serves, that it lives, and that it ends."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST
from tests.support.traffic import create_topic
from tests.support.worker import Worker, until


@pytest.mark.parametrize("abstract", [False, True])
async def test_systemd_is_told(
    abstract: bool, clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Ready once REST answers, alive again and again, and stopping at SIGTERM."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    address = f"@{topic}" if abstract else str(tmp_path / "notify")
    told: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind("\0" + address[1:] if abstract else address)
        channel.setblocking(False)

        def hear() -> list[str]:
            try:
                while True:
                    told.extend(channel.recv(4096).decode().splitlines())
            except BlockingIOError:
                return told

        environment = {"NOTIFY_SOCKET": address}
        async with Worker(source, target, tmp_path / "w", "--topics", topic, environment=environment) as worker:
            await until(lambda: "READY=1" in hear())
            assert f"REST at http://127.0.0.1:{worker.port}" in told[told.index("READY=1") + 1]
            await until(lambda: hear().count("WATCHDOG=1") >= 2)
            assert "STOPPING=1" not in told
            worker.signal(signal.SIGTERM)
            assert await worker.wait() == 0
            assert "STOPPING=1" in hear()
