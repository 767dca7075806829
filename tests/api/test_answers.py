"""What OpenAPI promises is complete: every path says what it answers, in the envelope."""

from __future__ import annotations

import json

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


def test_an_answer_that_is_not_as_promised_is_found() -> None:
    """A key that is missing, one too many, a word that is none of a state's."""
    task = {"id": "orders", "worker_id": "w1", "state": "RUNNING", "trace": None}
    path = "/connectors/route/tasks/orders%2Fbroker-a%2F0/status"
    check_answer("GET", path, json.dumps({"status": 200, "body": task}).encode())
    wrong = [task | {"state": "running"}, task | {"more": 1}, {k: v for k, v in task.items() if k != "trace"}]
    for body in wrong:
        with pytest.raises(ValidationError):
            check_answer("GET", path, json.dumps({"status": 200, "body": body}).encode())
    with pytest.raises(LookupError):
        check_answer("GET", "/nowhere", b"{}")
