"""A log that says the same each second hides what else is in it."""

from __future__ import annotations

import pytest

from replicator.observe import reminder
from replicator.observe.reminder import Reminder


def test_what_is_new_is_said_at_once_and_what_goes_on_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    at = 1000.0
    monkeypatch.setattr(reminder, "now", lambda: at)
    said = Reminder()
    assert [said.is_due(reason) for reason in ("a", "a", "b", "a", "b")] == [True, False, True, False, False]
    at += 59.9
    assert not said.is_due("a")
    at += 0.2
    assert said.is_due("a")


def test_it_begins_again_once_it_was_over() -> None:
    said = Reminder()
    assert not said.over()
    assert said.is_due("a")
    assert (said.over(), said.over()) == (True, False)
    assert said.is_due("a")
