"""`replicator brokers forget`: it asks, and says what became of the answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from replicator.cli import app
from replicator.operate.workers import brokers

PLACE = {"broker": "east-a", "queue": 3}
FOUND: dict[str, Any] = {
    "side": "source",
    "broker": "east-a",
    "queues_to": "",
    "copies": 0,
    "topics_gone": [],
    "queues": [
        {
            "topic": "orders",
            "source": PLACE,
            "target": PLACE,
            "moved_to": None,
            "position": 4702,
            "copied_until": None,
        }
    ],
}


@pytest.mark.parametrize(
    ("terminal", "reply", "said"),
    [
        (True, "y\n", ""),
        (True, "n\n", "Nothing was changed.\n"),
        (True, "", "Nothing was changed.\n"),
        (False, "y\n", "Nothing was changed: give --yes.\n"),
    ],
)
def test_who_declines_is_not_told_how_to_agree(
    terminal: bool, reply: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only who could not be asked is."""
    asked: list[bool] = []

    def ask(_method: str, _where: str, wanted: dict[str, Any]) -> dict[str, Any]:
        asked.append(wanted["dry_run"])
        return FOUND | {"dry_run": wanted["dry_run"]}

    monkeypatch.setattr(brokers, "Rest", lambda *_, **__: SimpleNamespace(ask=ask))
    monkeypatch.setattr(brokers, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: terminal)))
    ended = CliRunner().invoke(app, ["brokers", "forget", "east-a", "--side", "source"], input=reply)
    assert ended.stderr == said
    assert (ended.exit_code, asked) == ((5, [True]) if said else (0, [True, False]))
    assert " 4702" in ended.stdout
