"""The files in conf/ that people begin with: Prometheus takes them, systemd where it is there."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
import sys
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


@pytest.mark.parametrize("secure", [False, True])
def test_the_health_check_of_the_image(secure: bool, tmp_path: Path) -> None:
    """At another port, over TLS or not; a server that says anything but 200, and none at all, are not healthy."""
    status = 200

    class Live(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health/live" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Live)
    environment = {"REPLICATOR_REST__PORT": str(server.server_port)}
    if secure:
        files = tls.make(tmp_path, client_auth=False)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.server_cert, files.server_key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        environment["REPLICATOR_REST__TLS__CERT_FILE"] = str(files.server_cert)
    Thread(target=server.serve_forever, daemon=True).start()

    def healthy() -> bool:
        command = [sys.executable, str(DOCKER / "health.py")]
        return subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, check=False).returncode == 0

    assert healthy()
    status = 503
    assert not healthy()
    server.shutdown()
    server.server_close()
    assert not healthy()
