"""What commands make of a worker's answers."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from replicator.cli import app
from replicator.operate import commands


def test_a_configuration_is_shown_in_its_own_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """False, null and tables as JSON, so that nothing looks as if it were not set; lists without brackets."""
    config = {"retry_topics": False, "backfill": None, "acl": {"admins": False}, "topics": ["a", "b"], "sql": ""}

    class FakeRest:
        def __init__(self, url: str) -> None:
            assert url == "http://there"

        def get(self, path: str) -> Any:
            assert path == "/connectors/route/config"
            return config

    monkeypatch.setattr(commands, "Rest", FakeRest)
    shown = CliRunner().invoke(app, ["connectors", "config", "route", "--url", "http://there"]).stdout
    rows = dict(line.split(maxsplit=1) for line in shown.splitlines() if len(line.split()) > 1)
    assert {name: value.strip() for name, value in rows.items()} == {
        "setting": "value",
        "retry_topics": "false",
        "backfill": "null",
        "acl": '{"admins": false}',
        "topics": "a, b",
    }
