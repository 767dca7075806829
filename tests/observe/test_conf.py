"""The files in conf/ that people begin with: Prometheus takes them, and systemd where it is there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from replicator.settings import Settings
from tests.support.prometheus import running
from tests.support.worker import until
from tools.dashboards.page import ROOT

CONF = ROOT / "conf"


async def test_prometheus_loads_the_rules(tmp_path: Path) -> None:
    """With the two directories copied to an empty one, as the README says."""
    for each in ("conf", "dashboards"):
        shutil.copytree(ROOT / each, tmp_path / each)
    async with running(tmp_path / "conf/prometheus.yml") as prometheus:
        groups = await until(lambda: prometheus.ask("api/v1/rules")["groups"])
        loaded = {rule["name"] for group in groups for rule in group["rules"]}
    rules = yaml.safe_load((ROOT / "dashboards/rules.yml").read_text(encoding="utf-8"))
    assert loaded == {rule.get("alert") or rule["record"] for group in rules["groups"] for rule in group["rules"]}
    (job,) = yaml.safe_load((CONF / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    host, port = (Settings.model_fields[name].default for name in ("rest_host", "rest_port"))
    assert job["static_configs"][0]["targets"] == [f"{host}:{port}"]


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.y*ml")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_files_are_yaml_and_say_what_was_not_run(path: Path) -> None:
    """In their first lines."""
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)
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
