"""The Helm chart gives what Kubernetes and the replicator accept, and refuses values that would not do."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from replicator.settings import load
from tools.dashboards.page import ROOT

CHART = ROOT / "conf" / "helm" / "rocketmq-replicator"
SIDE = '[{}]\nnamesrv = "{}:9876"\naccess_key = "replicator"\n'
ROUTE = SIDE.format("source", "a") + SIDE.format("target", "b")
ALL = {
    "image": {"repository": "registry.example/replicator", "tag": "1"},
    "imagePullSecrets": [{"name": "registry"}],
    "replicas": 3,
    "config": ROUTE,
    "operateTokenSecret": {"name": "operate", "key": "token"},
    "readTokenSecret": {"name": "read", "key": "token"},
    "sourceSecret": {"name": "source", "key": "password"},
    "targetSecret": {"name": "target", "key": "password"},
    "workerGroupSecret": {"name": "group", "key": "secret"},
    "restTlsSecret": "rest-tls",
    "caSecret": "ca",
    "persistence": {"size": "2Gi", "storageClassName": "fast"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"zone": "east"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "extraEnv": [{"name": "REPLICATOR_LOG_LEVEL", "value": "debug"}],
}
LEAST = {"image": {"repository": "registry.example/replicator"}, "config": ROUTE}

helm = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")
pytestmark = pytest.mark.skipif(helm is None, reason="helm comes from PyPI for Linux on x86_64 only")


def rendered(values: dict[str, Any], directory: Path) -> subprocess.CompletedProcess[str]:
    file = directory / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    command = [str(helm), "template", "route", str(CHART), "--values", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def documents(values: dict[str, Any], directory: Path) -> dict[str, Any]:
    """What comes out, by kind; of two services the later one."""
    done = rendered(values, directory)
    assert done.returncode == 0, done.stderr
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}


@pytest.mark.parametrize("values", [LEAST, ALL], ids=["least", "all"])
def test_kubernetes_accepts_it(values: dict[str, Any], tmp_path: Path) -> None:
    """A field that it does not know is an error. ServiceMonitor is not Kubernetes' own."""
    found = documents(values, tmp_path)
    wanted = {"ConfigMap", "Service", "PodDisruptionBudget", "StatefulSet"}
    assert found.keys() == wanted | ({"ServiceMonitor"} if values is ALL else set())
    for kind in wanted:
        kubernetes_validate.validate(found[kind], "1.37", strict=True)
    wrong = {**found["Service"], "spec": {**found["Service"]["spec"], "port": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_names_in_it_fit_together(tmp_path: Path) -> None:
    found = documents(ALL, tmp_path)
    workers, pod = found["StatefulSet"]["spec"], found["StatefulSet"]["spec"]["template"]
    assert workers["serviceName"] == found["Service"]["metadata"]["name"]
    labels = pod["metadata"]["labels"].items()
    for selector in (
        workers["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels
    monitor = found["ServiceMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= found["Service"]["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in workers["volumeClaimTemplates"]}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]} | claims
    assert {probe["httpGet"]["scheme"] for name, probe in container.items() if name.endswith("Probe")} == {"HTTPS"}


def test_a_worker_takes_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment and the file, with secrets where the chart has them."""
    found = documents(ALL, tmp_path)
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (tmp_path / "route.toml").write_text(found["ConfigMap"]["data"]["route.toml"], encoding="utf-8")
    for entry in container["env"]:
        monkeypatch.setenv(entry["name"], entry.get("value", "s3cr3t-of-tests-0123456789"))
    for name in ("WORKER_GROUP_SECRET_FILE", "REST__TLS__CERT_FILE", "REST__TLS__KEY_FILE"):
        path = Path(container_value(container, f"REPLICATOR_{name}"))
        assert any(str(path.parent) == mount["mountPath"] for mount in container["volumeMounts"])
        (tmp_path / path.name).write_text("s3cr3t-of-tests-0123456789-0123456789", encoding="utf-8")
        (tmp_path / path.name).chmod(0o600)
        monkeypatch.setenv(f"REPLICATOR_{name}", str(tmp_path / path.name))
    settings = load({}, file=tmp_path / "route.toml")
    assert (settings.source.namesrv, settings.rest.host, settings.rest.port) == (["a:9876"], "0.0.0.0", 8082)
    assert settings.rest.token is not None
    assert settings.rest.read_token is not None
    assert settings.target.secret_key is not None
    assert pod["terminationGracePeriodSeconds"] > settings.drain_timeout
    assert str(settings.store_path) in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_services_of_the_namespace_set_no_variables(tmp_path: Path) -> None:
    """Those of Services called replicator… would begin as settings do."""
    assert documents(LEAST, tmp_path)["StatefulSet"]["spec"]["template"]["spec"]["enableServiceLinks"] is False


def container_value(container: dict[str, Any], name: str) -> str:
    return str(next(entry["value"] for entry in container["env"] if entry["name"] == name))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"config": ROUTE}, "repository"),
        ({**LEAST, "config": ""}, "config"),
        ({**LEAST, "tokenSecret": {"name": "", "key": "token"}}, "tokenSecret"),
        ({**LEAST, "sourceSecret": {"name": "source"}}, "sourceSecret"),
        ({**LEAST, "replica": 3}, "replica"),
        ({**LEAST, "replicas": 0}, "replicas"),
    ],
)
def test_values_that_would_not_do_are_refused(values: dict[str, Any], named: str, tmp_path: Path) -> None:
    """By name: REST needs a token, and a key that the chart does not know is a mistake."""
    done = rendered(values, tmp_path)
    assert done.returncode != 0
    assert named in done.stderr


def test_hadolint_accepts_the_image() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert hadolint is not None, "it comes with helm"
    command = [hadolint, str(ROOT / "conf" / "docker" / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
