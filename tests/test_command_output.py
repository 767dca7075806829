"""How results are shown: nothing wraps where no terminal says how wide it is, and JSON is as described."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from rich.console import Group
from rich.table import Table
from rich.text import Text

from replicator.command_output import Output, show
from replicator.operate.reports import SettingValue, UnreachableBroker
from replicator.operate.show import table
from tests.support.printed import check_printed


def test_rows_do_not_wrap_when_piped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is one line, for grep and awk; COLUMNS still says otherwise."""
    drawn = table(("name", "value"), [["n" * 100, "v" * 100]], empty="")
    monkeypatch.delenv("COLUMNS", raising=False)
    show(None, Output.TABLE, drawn)
    _, row = capsys.readouterr().out.splitlines()
    assert row.split() == ["n" * 100, "v" * 100]
    monkeypatch.setenv("COLUMNS", "60")
    show(None, Output.TABLE, drawn)
    assert len(capsys.readouterr().out.splitlines()) > 2


def test_reports_are_json_wherever_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names of the schema, not those of Python, and no line broken."""
    show({"topics": SettingValue(value="x" * 300, origin="flag")}, Output.JSON, Text())
    assert json.loads(capsys.readouterr().out) == {"topics": {"value": "x" * 300, "from": "flag"}}


def test_values_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """A part between colons may be the name of an emoji, and what is in brackets the name of a style."""
    value = "order:id:42 [red]x[/red] é"
    show({"key": value}, Output.JSON, Text())
    assert json.loads(capsys.readouterr().out) == {"key": value}
    plain = Table("key", "state")
    plain.add_row(Text(value), "order:id:42")
    for drawn in (table(("key",), [[value]], empty=""), Text(value), plain):
        show(None, Output.TABLE, drawn)
        shown = capsys.readouterr().out
        assert value in shown
        assert "🆔" not in shown


def test_nothing_harmful_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """In whatever form it is drawn, and be it on the screen of a terminal."""
    for drawn in (
        Text("a\x9b2Jb\u202ec\nnext"),
        Group(Text("a\x9b2Jb\u202ec", style="red"), "next"),
        "a\x9b2Jb\u202ec\nnext",
    ):
        show(None, Output.TABLE, drawn)
        assert capsys.readouterr().out == "a 2Jb c\nnext\n"


def test_a_report_has_nothing_that_is_not_described() -> None:
    with pytest.raises(ValidationError):
        UnreachableBroker.model_validate({"broker": "a", "reason": "", "more": 1})


def test_json_that_is_not_as_described_is_found() -> None:
    """A key too many, one that is missing, and a command that nobody described."""
    asked = ("sandbox", "down", "-o", "json")
    check_printed(asked, '{"ended": []}')
    check_printed(("version",), "version 0.1.0")
    for wrong in ('{"ended": [], "more": 1}', "{}"):
        with pytest.raises(ValidationError):
            check_printed(asked, wrong)
    with pytest.raises(LookupError):
        check_printed(("nothing", "-o", "json"), "{}")
