"""What conf/kubernetes has is what Kubernetes, Spark and the replicator accept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from replicator.settings import load
from replicator.spark.engine.user_conf import user_conf

FILES = sorted((Path(__file__).parent.parent.parent / "conf" / "kubernetes").glob("*.yaml"))


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def documents(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(request.param.read_text()) if each]


def test_they_are_of_the_schemas(documents: list[dict[str, Any]]) -> None:
    """Also the pod template inside; a field that Kubernetes does not know is an error."""
    templates = [yaml.safe_load(text) for each in documents for name, text in files(each) if name.endswith(".yaml")]
    assert templates
    for each in (*documents, *templates):
        kubernetes_validate.validate(each, "1.37", strict=True)
    wrong = {**templates[0], "spec": {**templates[0]["spec"], "container": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_the_settings_inside_can_be_used(
    documents: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's, which name what the documents have, and those of the route."""
    for name, text in (each for document in documents for each in files(document)):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name in ("PYSPARK_SUBMIT_ARGS", "MASTER", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    conf = user_conf()
    named = {each["kind"]: each for each in documents}
    service = named["Service"]
    namespace = service["metadata"]["namespace"]
    assert {each["metadata"]["namespace"] for each in documents} == {namespace, conf["spark.kubernetes.namespace"]}
    assert conf["spark.driver.host"] == f"{service['metadata']['name']}.{namespace}.svc"
    ports = {str(port["port"]) for port in service["spec"]["ports"]}
    assert ports == {conf["spark.driver.port"], conf["spark.driver.blockManager.port"]}
    pod = named["Job"]["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["serviceAccountName"] == named["ServiceAccount"]["metadata"]["name"]
    (driver,) = pod["spec"]["containers"]
    assert driver["image"] == conf["spark.kubernetes.container.image"]
    (config,) = re.findall(r"\S*/route.toml", " ".join(driver["command"]))
    mounts = {mount["mountPath"] for mount in driver["volumeMounts"]}
    settings = load({}, file=tmp_path / Path(config).name)
    assert {str(Path(config).parent), str(settings.store_path)} == mounts


def files(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Those of a ConfigMap."""
    return list(document["data"].items()) if document["kind"] == "ConfigMap" else []
