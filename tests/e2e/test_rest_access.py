"""Who may speak to the REST of a worker: those with its token, or with a certificate of its authority."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec, tls
from tests.support.clusters import ClusterPool
from tests.support.traffic import create_topic
from tests.support.worker import Worker, command, until

pytestmark = pytest.mark.timeout(300)

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")


async def test_a_token_guards_all_but_metrics_and_health(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """And stands in no log, page or state file; without it only loopback may be served."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    token = "not-to-be/seen+anywhere"
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    file.chmod(0o600)
    environment = {"REPLICATOR_REST__TOKEN_FILE": str(file)}
    flags = ("--topics", topic, "--log-level", "debug")
    async with Worker(source, target, tmp_path, *flags, environment=environment) as worker:
        assert worker.get("/health/live") == {"status": "up"}
        assert "rocketmq_replicator_build_info" in worker.get("/metrics")
        for given in ("", "wrong"):
            assert worker.ask("GET", "/getClusterInfo", token=given)[0] == 401
            assert worker.ask("DELETE", "/connectors/route", token=given)[0] == 401
        assert worker.ask("GET", "/getClusterInfo", token=token)[0] == 200
        url = {"REPLICATOR_URL": f"http://127.0.0.1:{worker.port}"}
        for settings, code in ((url, 6), (url | environment, 0)):
            ended = await asyncio.to_thread(command, settings, "cluster")
            assert ended.returncode == code, ended.stderr
        await until(lambda: worker.ask("GET", "/connectors/route/status", token=token)[0] == 200)
        written = [worker.log, *(path.read_text() for path in worker.store.iterdir() if path.is_file())]
        written.append(json.dumps(worker.ask("GET", "/connectors/list", token=token)))
        assert not [text for text in written if token in text]
    open_to_all = Worker(source, target, tmp_path / "open", "--rest-host", "0.0.0.0")
    await open_to_all.start(ready=False)
    assert await open_to_all.wait() == 78
    assert "is not a loopback address" in open_to_all.log


async def test_each_role_may_do_its_own(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """And without a token only this machine is answered, under its own name, and no page of another site."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    tokens = {"TOKEN": "the-admin", "OPERATE_TOKEN": "the-operator", "READ_TOKEN": "the-reader"}
    environment = {f"REPLICATOR_REST__{name}": token for name, token in tokens.items()}
    async with Worker(source, target, tmp_path / "w", "--topics", topic, environment=environment) as worker:
        await until(lambda: worker.get("/health/ready")["ready"])
        for token, allowed in (("the-reader", 1), ("the-operator", 2), ("the-admin", 3)):
            asked = [("GET", "/getClusterInfo"), ("PUT", "/connectors/route/pause"), ("DELETE", "/connectors/none")]
            codes = [worker.ask(method, path, token=token)[0] for method, path in asked]
            assert codes == [200] * allowed + [403] * (3 - allowed)
        assert asks(worker.port, "GET /connectors/list", "Host: x/metrics?") == 401
        read = {"REPLICATOR_URL": f"http://127.0.0.1:{worker.port}", "REPLICATOR_REST__READ_TOKEN": "the-reader"}
        assert (await asyncio.to_thread(command, read, "cluster")).returncode == 0
        refused = await asyncio.to_thread(command, read, "connectors", "pause", "route")
        assert (refused.returncode, "this needs a token for operate or admin" in refused.stderr) == (6, True)
    async with Worker(source, target, tmp_path / "open", "--topics", topic) as worker:
        ours, post = f"Host: localhost:{worker.port}", "POST /connectors/route/restart"
        assert asks(worker.port, "GET /status", ours) == 200
        assert asks(worker.port, "GET /status", "Host: rebound.example") == 403
        assert asks(worker.port, post, ours, "Origin: http://evil.example") == 403
        create, json_ = "POST /connectors/x", "Content-Type: application/json"
        assert asks(worker.port, create, ours, "Content-Length: 2", body="{}") == 415
        assert asks(worker.port, create, ours, "Content-Length: 9", json_, body="{") == 408
        assert asks(worker.port, "GET /docs", ours) == 404


def asks(port: int, what: str, *headers: str, body: str = "") -> int:
    """The status of an answer to a request as it is written here."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        sock.sendall("\r\n".join([f"{what} HTTP/1.1", *headers, "", body]).encode())
        return int(sock.makefile("rb").readline().split()[1])


async def test_client_certificates_guard_it_too(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Over TLS, and the commands show theirs."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    made = tls.make(tmp_path / "tls", client_auth=True)
    state_file = {"CA_FILE": made.ca, "CERT_FILE": made.server_cert, "KEY_FILE": made.server_key}
    environment = {f"REPLICATOR_REST__TLS__{name}": str(path) for name, path in state_file.items()}
    worker = Worker(
        source, target, tmp_path / "w", "--topics", topic, "--rest-host", "0.0.0.0", environment=environment
    )
    await worker.start(ready=False)
    try:
        await until(lambda: "https://0.0.0.0:" in worker.log)
        port = int(worker.log.split("https://0.0.0.0:")[1].split("/")[0])
        for cert, code in ((made.client_cert, 0), (None, 3)):
            given = {"REPLICATOR_URL": f"https://127.0.0.1:{port}", "REPLICATOR_REST__TLS__CA_FILE": str(made.ca)}
            if cert is not None:
                given["REPLICATOR_REST__TLS__CERT_FILE"] = str(cert)
                given["REPLICATOR_REST__TLS__KEY_FILE"] = str(made.client_key)
            ended = await asyncio.to_thread(command, given, "cluster")
            assert ended.returncode == code, ended.stderr
    finally:
        await worker.kill()
