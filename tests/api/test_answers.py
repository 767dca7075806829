"""What OpenAPI promises is complete: every path says what it answers, in the envelope."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.answers import check_answer
from tools.openapi import document

#: Pages that are no JSON of ours, or say one fixed word.
PLAIN = {"/metrics", "/health/live", "/events"}


def test_every_answer_is_described() -> None:
    """By a schema, not by `{}`."""
    described = {
        (path, method): operation["responses"][code]["content"]["application/json"]["schema"]
        for path, operations in document()["paths"].items()
        for method, operation in operations.items()
        for code in operation["responses"]
        if code == "200" and path not in PLAIN
    }
    assert len(described) > 30
    assert [key for key, schema in described.items() if not schema] == []


def _is_free(schema: dict[str, Any]) -> bool:
    """Whether a schema takes anything, or a part of it does."""
    if not {"type", "$ref", "anyOf", "enum", "const"} & schema.keys():
        return True
    if schema.get("type") == "object" and not schema.get("properties"):
        more = schema.get("additionalProperties", True)
        return more is True or (more is not False and _is_free(more))
    parts = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return any(map(_is_free, parts))


def test_only_what_has_any_form_is_described_as_such() -> None:
    """Configurations, and what of a topic, a group or an account differs; a client knows all else."""
    found = document()
    models = found["components"]["schemas"]
    free = {
        f"{name}.{field}"
        for name, model in models.items()
        for field, schema in model.get("properties", {}).items()
        if _is_free(schema)
    }
    steps = {
        f"{name}.{field}" for name in ("PlanStep", "Applied", "AuditedChange") for field in ("before", "after")
    }
    assert free == steps | {"ConnectorInfo.config", "Envelope_dict_str__Any__.body", "Option.default"}
    assert [name for name, model in models.items() if model.get("additionalProperties", True) is not False] == []
    configured = {
        path
        for path, operations in found["paths"].items()
        for operation in operations.values()
        for body in operation.get("requestBody", {}).get("content", {}).values()
        if _is_free(body["schema"])
    }
    assert configured == {"/connectors/{name}", "/plugin/config/validate"}


def test_an_answer_that_is_not_as_promised_is_found() -> None:
    """A key that is missing, one too many, a word that no state has."""
    task = {"id": "orders", "worker_id": "w1", "state": "RUNNING", "trace": None}
    path = "/connectors/route/tasks/orders%2Fbroker-a%2F0/status"
    check_answer("GET", path, json.dumps({"status": 200, "body": task}).encode())
    wrong = [task | {"state": "running"}, task | {"more": 1}, {k: v for k, v in task.items() if k != "trace"}]
    for body in wrong:
        with pytest.raises(ValidationError):
            check_answer("GET", path, json.dumps({"status": 200, "body": body}).encode())
    with pytest.raises(LookupError):
        check_answer("GET", "/nowhere", b"{}")
