"""How results are shown: nothing wraps where no terminal says how wide it is."""

from __future__ import annotations

import pytest

from replicator.operate.show import Output, show, table


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
