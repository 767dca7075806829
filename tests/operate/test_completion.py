"""The completion that is printed works in a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def completion(shell: str) -> str:
    command = [str(BIN / "replicator"), "completion", shell]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        (["doc"], {"doctor"}),
        (["sandbox", "co"], {"consume"}),
        (["doctor", "--quie"], {"--quiet"}),
        (["sandbox", "up", "--version", "4"], {"4.9.7"}),
    ],
)
def test_bash(typed: list[str], wanted: set[str]) -> None:
    """As the shell calls it when Tab is pressed."""
    script = f"""{completion("bash")}
COMP_WORDS=(replicator {" ".join(typed)}); COMP_CWORD={len(typed)}
_replicator_completion replicator
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, env=environment, cwd="/"
    )
    assert {*ended.stdout.split()} == wanted, ended.stderr


@pytest.mark.parametrize(
    ("shell", "sign"), [("zsh", "#compdef replicator"), ("fish", "complete --command replicator")]
)
def test_other_shells(shell: str, sign: str) -> None:
    assert completion(shell).startswith(sign)


def test_an_unknown_shell() -> None:
    ended = subprocess.run([BIN / "replicator", "completion", "tcsh"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "SHELL = 'tcsh': give bash, zsh or fish" in ended.stderr
