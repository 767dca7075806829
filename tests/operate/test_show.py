"""Tables of what a worker answers."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from replicator.operate.show import cell, lag_table
from tests.observe.test_printable import HARMFUL
from tests.support.page import TOPIC


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "yes"), (False, ""), (None, ""), (1234567, "1,234,567"), (0.25, "0.2"), ("RUNNING", "RUNNING")],
)
def test_cells(value: object, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As people read them."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cell(value).plain == shown


@pytest.mark.parametrize("harmful", HARMFUL)
def test_what_others_have_written_is_text_alone(harmful: str) -> None:
    """Records of the group and brokers' remarks may have anything in them."""
    lag = {**TOPIC, "reason": f"a{harmful}b"}
    console = Console(width=500, file=io.StringIO(), record=True, legacy_windows=False)
    console.print(lag_table({f"r{harmful}": {"status": {"topics": [lag]}}}))
    shown = console.export_text()
    assert f"a {harmful[1:]}b" in shown
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize(("value", "shown"), [(1234567, "1234567"), (48211.25, "48211.2"), (True, "yes")])
def test_numbers_in_a_pipe_are_digits_alone(value: object, shown: str) -> None:
    """Programs read them."""
    assert cell(value).plain == shown
