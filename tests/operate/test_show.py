"""Tables of what a worker answers."""

from __future__ import annotations

import sys

import pytest

from replicator.operate.show import cell


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "yes"), (False, ""), (None, ""), (1234567, "1,234,567"), (0.25, "0.2"), ("RUNNING", "RUNNING")],
)
def test_cells(value: object, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As people read them."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cell(value).plain == shown


@pytest.mark.parametrize(("value", "shown"), [(1234567, "1234567"), (48211.25, "48211.2"), (True, "yes")])
def test_numbers_in_a_pipe_are_digits_alone(value: object, shown: str) -> None:
    """Programs read them."""
    assert cell(value).plain == shown
