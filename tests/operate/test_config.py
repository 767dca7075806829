"""`replicator config check`: what a start would refuse without asking any cluster is refused here, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from replicator.cli import app
from replicator.errors import ConfigError
from tests.support.packages import install_plain

CHECK = ["config", "check", "--source", "a:1", "--target", "b:1"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--assignment", "foo"], "assignment = 'foo' is not installed: there are even, sticky, consistent-hash"),
        (["--transforms", "foo"], "transforms = 'foo' is not installed"),
        (["--acl-source-dir", "/nope"], "acl.source_dir: /nope has neither plain_acl.yml nor acl/*.yml"),
    ],
)
def test_what_a_start_would_refuse(given: list[str], said: str) -> None:
    ended = CliRunner().invoke(app, [*CHECK, *given])
    assert isinstance(ended.exception, ConfigError)
    assert str(ended.exception).startswith(said)
    assert ended.stdout == ""


def test_a_transform_that_takes_no_waiting_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused where they are to be parked."""
    install_plain(tmp_path, "transforms_to_check")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert CliRunner().invoke(app, [*CHECK, "--transforms", "plain"]).exit_code == 0
    ended = CliRunner().invoke(app, [*CHECK, "--transforms", "plain", "--sync", "topics,pending"])
    assert str(ended.exception).startswith("transforms = 'plain' takes no messages that wait")


def test_accounts_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text("accounts: []\n")
    ended = CliRunner().invoke(app, [*CHECK, "--acl-source-dir", str(tmp_path)])
    assert ended.exit_code == 0


def test_a_setting_is_a_line_without_a_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """As other commands draw theirs, for grep and awk."""
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = CliRunner().invoke(app, CHECK).stdout.splitlines()
    assert lines[0].split() == ["setting", "value", "from"]
    assert ["on_gap", "skip", "default"] in [line.split() for line in lines]
    assert ["source.namesrv", "a:1", "flag"] in [line.split() for line in lines]
