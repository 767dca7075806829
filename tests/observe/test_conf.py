"""The files in conf/ that people begin with: Prometheus takes them, systemd where it is there."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from replicator.sandbox import tls
from replicator.settings import RestSettings, load
from tests.support.prometheus import running
from tests.support.worker import until
from tools.dashboards.page import ROOT

CONF = ROOT / "conf"
DOCKER = CONF / "docker"


@pytest.mark.fetched
async def test_prometheus_loads_the_rules(tmp_path: Path) -> None:
    """With the two directories copied to an empty one, as docs/MONITORING.md says."""
    for each in ("conf", "dashboards"):
        shutil.copytree(ROOT / each, tmp_path / each)
    async with running(tmp_path / "conf/prometheus.yml") as prometheus:
        groups = await until(lambda: prometheus.ask("api/v1/rules")["groups"])
        loaded = {rule["name"] for group in groups for rule in group["rules"]}
    rules = yaml.safe_load((ROOT / "dashboards/rules.yml").read_text(encoding="utf-8"))
    assert loaded == {rule.get("alert") or rule["record"] for group in rules["groups"] for rule in group["rules"]}
    (job,) = yaml.safe_load((CONF / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    host, port = (RestSettings.model_fields[name].default for name in ("host", "port"))
    assert job["static_configs"][0]["targets"] == [f"{host}:{port}"]


@pytest.mark.parametrize(
    "path",
    sorted({*CONF.rglob("*.y*ml")} - {*CONF.rglob("templates/*")}),
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_files_are_yaml_and_say_what_was_not_run(path: Path) -> None:
    """In their first lines."""
    text = path.read_text(encoding="utf-8")
    assert all(yaml.safe_load_all(text))
    head = text.split("\n\n")[0].replace("\n# ", " ").lower()
    assert "not run on the development machine" in head


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """With the program where this one is. The path of its settings is that of conf/route.toml's own state."""
    text = (CONF / "rocketmq-replicator.service").read_text(encoding="utf-8")
    assert "Not run as a service on the development machine" in text.splitlines()[0]
    program = Path(sys.executable).with_name("replicator")
    unit = tmp_path / "rocketmq-replicator.service"
    unit.write_text(text.replace("/opt/rocketmq-replicator/bin/replicator", str(program)), encoding="utf-8")
    assert str(program) in unit.read_text(encoding="utf-8")
    state = next(line for line in text.splitlines() if line.startswith("StateDirectory="))
    path = f"/var/lib/{state.partition('=')[2]}"
    assert f'store_path = "{path}"' in (CONF / "route.toml").read_text(encoding="utf-8")
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    ended = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def _compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yml").read_text(encoding="utf-8"))
    return found


def test_composed_workers_have_settings_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What their environment says is a valid worker, with a token, on the port that is scraped and published."""
    services = _compose()["services"]
    workers = [name for name in services if name.startswith("worker")]
    assert len(workers) == 2
    for name in workers:
        for key, value in services[name]["environment"].items():
            monkeypatch.setenv(key, re.sub(r"^\$\{\w+:\?.*\}$", "given", value))
        settings = load({}, file=None)
        assert settings.rest.token is not None
        assert str(settings.store_path) == services[name]["volumes"][0].partition(":")[2]
    scraped = yaml.safe_load((DOCKER / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == [f"{name}:{settings.rest.port}" for name in workers]
    own = yaml.safe_load((CONF / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"][0]
    assert scraped["job_name"] == own["job_name"]


def test_what_is_mounted_is_there() -> None:
    """Files by their paths from compose.yml's directory, configurations and services by their names."""
    compose = _compose()
    for name, service in compose["services"].items():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert (DOCKER / source).exists() if source.startswith(".") else source in compose["volumes"], name
        assert {each["source"] for each in service.get("configs", [])} <= compose["configs"].keys()
        assert set(service.get("depends_on", [])) <= compose["services"].keys()
        if "build" in service:
            assert (DOCKER / service["build"]["context"]).resolve() == ROOT
            assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_the_image_copies_what_there_is() -> None:
    """And .dockerignore lets it through; it runs as nobody who is known, and begins with the program itself."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for name in line.split()
    ]
    assert {"replicator", "acl_sync", "pyproject.toml"} <= set(copied)
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    assert re.search(r"^USER \d+:\d+$", text, re.MULTILINE)
    assert text.splitlines()[-1] == 'ENTRYPOINT ["replicator"]'


@contextlib.contextmanager
def worker(files: tls.TlsFiles | None = None, *, host: str = "127.0.0.1", ca: Path | None = None) -> Iterator[Live]:
    """What answers as REST does, with the environment of its container: over TLS, with client certificates."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with Live((host, 0), family) as server:
        if files is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files.server_cert, files.server_key)
            given = {"CERT_FILE": files.server_cert, "KEY_FILE": files.server_key}
            if ca is not None:
                context.load_verify_locations(ca)
                context.verify_mode = ssl.CERT_REQUIRED
                given["CA_FILE"] = ca
            server.socket = context.wrap_socket(server.socket, server_side=True)
            server.environment |= {f"REPLICATOR_REST__TLS__{name}": str(path) for name, path in given.items()}
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


class Live(ThreadingHTTPServer):
    """Answers with `status`, and ends a connection without an answer if that is None."""

    def __init__(self, address: tuple[str, int], family: int) -> None:
        self.address_family = family
        self.status: int | None = 200
        super().__init__(address, Answering)
        self.environment = {"REPLICATOR_REST__PORT": str(self.server_port)}
        if address[0] != "127.0.0.1":
            self.environment["REPLICATOR_REST__HOST"] = address[0]

    def check(self, **environment: str) -> str:
        """What the check of the image says; empty if that is healthy."""
        command = [sys.executable, str(DOCKER / "health.py")]
        given = self.environment | environment
        ended = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
        assert (ended.returncode, bool(ended.stderr)) in ((0, False), (1, True)), ended.stderr
        assert len(ended.stderr.splitlines()) <= 1
        return ended.stderr


class Answering(BaseHTTPRequestHandler):
    server: Live

    def do_GET(self) -> None:
        if self.server.status is not None:
            self.send_response(self.server.status if self.path == "/health/live" else 404)
            self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize("secure", [False, True])
def test_the_health_check_of_the_image(secure: bool, tmp_path: Path) -> None:
    """At another port, over TLS or not; one that says anything but 200, or nothing, or is gone, is not healthy."""
    with worker(tls.make(tmp_path, client_auth=False) if secure else None) as server:
        assert server.check() == ""
        server.status = 503
        assert "answered 503" in server.check()
        server.status = None
        assert "no answer of /health/live" in server.check()
    assert "no answer of /health/live" in server.check()


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.2", "localhost", "::", "::1"])
def test_the_health_check_asks_where_rest_is_served(host: str) -> None:
    """Nothing of 127.0.0.1 is served at some of them."""
    with worker(host=host) as server:
        assert server.check() == ""


def test_the_health_check_shows_a_certificate(tmp_path: Path) -> None:
    """The worker's own, or another where REST does not accept that one; without any it is refused."""
    files, clients = (tls.make(tmp_path / name, client_auth=True) for name in ("rest", "clients"))
    with worker(files, ca=files.ca) as server:
        assert server.check() == ""
        server.status = 503
        assert "answered 503" in server.check()
    with worker(files, ca=clients.ca) as server:
        assert "no answer of /health/live" in server.check()
        other = {"HEALTH_CERT_FILE": str(clients.client_cert), "HEALTH_KEY_FILE": str(clients.client_key)}
        assert server.check(**other) == ""
