"""The command line as its users see it: exit codes, one line a mistake, and what is in force."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from replicator import __version__
from replicator.exit_codes import ExitCode
from replicator.settings import setting_fields
from tests.client.peer import unused_port
from tests.support.printed import check_printed

CANARY = "canary-91c4"


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("REPLICATOR_")}
    ended = subprocess.run(
        [sys.executable, "-m", "replicator", *arguments],
        cwd=cwd,
        env={**inherited, "COLUMNS": "80", "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    check_printed(arguments, ended.stdout)
    return ended


def dead() -> str:
    return f"127.0.0.1:{unused_port()}"


def test_the_version(tmp_path: Path) -> None:
    """One line."""
    ended = run("--version", cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"rocketmq-replicator {__version__}\n", "")


def test_a_worker_does_not_load_what_only_other_commands_need() -> None:
    """It would cost each start a tenth more; what its HTTP is made with, a third."""
    script = "import sys, replicator.cli, replicator.service; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = ended.stdout.split()
    assert "replicator.service" in loaded
    later = ("replicator.demo", "replicator.sandbox", "replicator.spark", "fastapi", "jinja2", "replicator.page")
    assert [name for name in loaded if name.startswith(later)] == []


def test_the_help_does_not_load_what_a_worker_is_made_of() -> None:
    """It is three quarters of all."""
    script = "import sys, replicator.cli; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    later = ("replicator.service", "replicator.worker", "replicator.connector", "uvicorn", "prometheus_client")
    assert [name for name in ended.stdout.split() if name.startswith(later)] == []


#: They are loaded when they are asked for.
LATE = ["config", "backfill", "verify", "run", "spark-package", "sandbox", "demo"]


def test_every_command_is_in_the_help(tmp_path: Path) -> None:
    """With words of its own."""
    told = run("--help", cwd=tmp_path).stdout
    assert [each for each in LATE if not re.search(rf"^\W*{each}\s+\w", told, re.MULTILINE)] == []


@pytest.mark.parametrize("command", LATE)
def test_every_command_has_a_help_of_its_own(command: str, tmp_path: Path) -> None:
    """Also those that are loaded when they are asked for."""
    ended = run(command, "--help", cwd=tmp_path)
    assert ended.returncode == 0
    assert re.search(rf"Usage: .* {command}\s", ended.stdout)


def test_the_help_has_every_setting(tmp_path: Path) -> None:
    """Except secrets, which would be seen in the list of processes."""
    ended = run("--help", cwd=tmp_path, COLUMNS="300")
    assert ended.returncode == 0
    flags = set(re.findall(r"--[a-z0-9-]+", ended.stdout))
    for name, field in setting_fields():
        flag = "--" + name.removesuffix(".namesrv").replace(".", "-").replace("_", "-")
        assert (flag in flags) == (not name.endswith(("secret_key", "token", "password"))), flag
        assert flag not in flags or (field.description or "?").split(" ")[0] in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ([], ["replicator: source is missing: give --source", "replicator: target is missing: give --target"]),
        (
            ["--source", "a", "--target", "b:1", "--on-gap", "x"],
            ["replicator: source.namesrv", "replicator: on_gap = 'x'"],
        ),
        (
            ["--source", "a:1", "--target", "b:1", "--config", "missing.toml"],
            ["replicator: config = 'missing.toml'"],
        ),
        (
            [
                "--source",
                "a:1",
                "--target",
                "b:1",
                "--source-tls-mode",
                "verify",
                "--source-tls-ca-file",
                "none.pem",
            ],
            ["replicator: tls.ca_file = 'none.pem'"],
        ),
    ],
)
def test_mistakes_of_the_user(tmp_path: Path, arguments: list[str], lines: list[str]) -> None:
    """Exit code 78, one line each, nothing on standard output, and nothing was written anywhere."""
    ended = run(*arguments, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (ExitCode.BAD_CONFIG, "")
    told = ended.stderr.splitlines()
    assert len(told) == len(lines)
    for line, begin in zip(sorted(told), sorted(lines), strict=True):
        assert line.startswith(begin)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_variable_of_the_environment(tmp_path: Path) -> None:
    """It is a mistake of the user too."""
    ended = run("--source", "a:1", "--target", "b:1", cwd=tmp_path, REPLICATOR_TOPIC="x")
    assert ended.returncode == ExitCode.BAD_CONFIG
    reason = "the environment has REPLICATOR_TOPIC, which is not a setting: did you mean REPLICATOR_TOPICS?"
    assert ended.stderr == f"replicator: {reason}\n"


def test_no_line_shows_a_password_of_a_url(tmp_path: Path) -> None:
    """Also where it is not what a command takes there."""
    ended = run("plan", f"http://u:{CANARY}@h", cwd=tmp_path)
    assert ended.returncode == ExitCode.USAGE
    assert "//…@h" in ended.stderr
    assert CANARY not in ended.stderr


def test_an_unreadable_secret(tmp_path: Path) -> None:
    """Found before anything is asked of any cluster."""
    secret = tmp_path / "secret"
    secret.write_text(CANARY)
    secret.chmod(0o644)
    ended = run(
        *("--source", dead(), "--target", dead(), "--source-access-key", "k"),
        *("--source-secret-key-file", str(secret)),
        cwd=tmp_path,
    )
    assert ended.returncode == ExitCode.BAD_CONFIG
    assert "chmod 600" in ended.stderr
    assert CANARY not in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_surroundings_that_do_not_allow_a_start(tmp_path: Path) -> None:
    """Exit code 3; the side, the address and the reason in one line, after the JSON log."""
    source = dead()
    ended = run("--source", source, "--target", dead(), "--rest-port", "0", cwd=tmp_path)
    assert ended.returncode == ExitCode.UNUSABLE
    line = ended.stderr.splitlines()[-1]
    assert line.startswith("replicator: ")
    assert source in line
    assert "refused" in line
    assert "Traceback" not in ended.stderr


CONFIG = ["config", "check", "--source", "a:1", "--target", "b:1,c:2"]


@pytest.mark.parametrize(("arguments", "code"), [(["--no-such-flag"], 2), (["--source", "x y"], 78)])
def test_what_cannot_be_told_does_not_change_the_exit_code(tmp_path: Path, arguments: list[str], code: int) -> None:
    """The disk that takes what is told is full."""
    full = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    command = f"{full}; sys.argv = ['replicator', *{arguments!r}]; from replicator.cli import main; main()"
    with (tmp_path / "log").open("wb") as log:
        ended = subprocess.run([sys.executable, "-c", command], stdout=log, stderr=log, check=False, cwd=tmp_path)
    assert (ended.returncode, (tmp_path / "log").read_bytes()) == (code, b"")


#: A command whose exit code says more than that it has run, as one of 5 does.
ENDS_WITH_5 = """
import sys
from unittest.mock import patch
from replicator.cli import main
from replicator.operate.workers.rest import Rest
found = dict.fromkeys(("kind", "broker", "name", "before", "after", "blocked", "note")) | {"action": "unknown"}
with patch.object(Rest, "get", lambda *_, **__: [found]):
    sys.argv = ["replicator", "plan", *sys.argv[1:]]
    main()
"""


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize(
    ("where", "reason"), [(">&-", "is closed"), (">/dev/full", "cannot be written (No space left on device)")]
)
def test_what_cannot_be_shown_does_not_change_the_exit_code(
    tmp_path: Path, where: str, reason: str, form: str
) -> None:
    """The work is done by then, and scripts go by how it went."""
    shell = ["sh", "-c", f'exec "$@" {where}', "sh", sys.executable]
    told = f"replicator: standard output {reason}, so what the command prints is lost\n"
    for python, code in (
        (["-c", ENDS_WITH_5, "-o", form], ExitCode.NOT_AS_EXPECTED),
        (["-m", "replicator", "version", "-o", form], ExitCode.OK),
        (["-m", "replicator", "--help"], ExitCode.OK),
    ):
        ended = subprocess.run([*shell, *python], stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
        assert (ended.returncode, ended.stderr) == (code, told)


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_reader_that_has_gone_ends_a_command_silently(tmp_path: Path, form: str) -> None:
    """As in `replicator version | head -0`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "replicator", "version", "-o", form]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, cwd=tmp_path)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_closed_standard_error_does_not_change_the_exit_code(tmp_path: Path) -> None:
    """Nor do its lines get among the results."""
    command = [sys.executable, "-m", "replicator", "--source", "x y"]
    shell = ["sh", "-c", 'exec "$@" 2>&-', "sh"]
    ended = subprocess.run([*shell, *command], stdout=subprocess.PIPE, check=False, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (ExitCode.BAD_CONFIG, b"")


def test_config_check_as_json(tmp_path: Path) -> None:
    """Every setting with its value and where that came from; secrets are masked."""
    file = tmp_path / "r.toml"
    file.write_text("rate_bytes = '1 MiB'\nsource.access_key = 'account'\nrate_messages = 3\n")
    ended = run(
        *CONFIG,
        *("--config", str(file), "--output", "json", "--rate-messages", "5"),
        cwd=tmp_path,
        REPLICATOR_SOURCE__SECRET_KEY=CANARY,
        REPLICATOR_TOPICS="x,y",
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    told = json.loads(ended.stdout)
    assert told.keys() == {name for name, _ in setting_fields()}
    assert told["source.namesrv"] == {"value": "a:1", "from": "flag"}
    assert told["target.namesrv"] == {"value": "b:1, c:2", "from": "flag"}
    assert told["rate_messages"] == {"value": 5, "from": "flag"}
    assert told["topics"] == {"value": "x, y", "from": "environment"}
    assert told["rate_bytes"] == {"value": 1024**2, "from": str(file)}
    assert told["log_level"] == {"value": "info", "from": "default"}
    assert told["source.secret_key"] == {"value": "**********", "from": "environment"}
    assert CANARY not in ended.stdout


def test_config_check_as_a_table(tmp_path: Path) -> None:
    """All settings, masked secrets, and nothing written."""
    ended = run(
        *CONFIG, "--source-access-key", "account", cwd=tmp_path, REPLICATOR_SOURCE__SECRET_KEY=CANARY, COLUMNS="200"
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = [re.split(" {2,}", line.strip()) for line in ended.stdout.splitlines()]
    table = {row[0]: row[1:] for row in rows}
    assert {name for name, _ in setting_fields()} <= table.keys()
    assert table["source.namesrv"] == ["a:1", "flag"]
    assert table["source.secret_key"] == ["**********", "environment"]
    assert table["log_level"] == ["info", "default"]
    assert CANARY not in ended.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pattern", ["[a-z]+", "x[/a]", "[red]x"])
def test_config_check_shows_patterns_as_they_are(tmp_path: Path, pattern: str) -> None:
    """Brackets in them are no markup."""
    ended = run(*CONFIG, "--topics", pattern, cwd=tmp_path, COLUMNS="200")
    assert ended.returncode == 0, ended.stderr
    assert pattern in ended.stdout


def test_config_check_cuts_nothing_off(tmp_path: Path) -> None:
    """Long values are folded where the terminal is narrow."""
    long = "a" * 150
    ended = run(*CONFIG, "--source-cluster", long, cwd=tmp_path)
    assert ended.stdout.count("a") >= 150
    assert "…" not in ended.stdout


def test_config_check_refuses_an_unknown_output(tmp_path: Path) -> None:
    """Rather than giving a table to a program that wants something else."""
    ended = run(*CONFIG, "--output", "yaml", cwd=tmp_path)
    assert ended.returncode != 0
    assert "yaml" in ended.stderr


def test_config_check_tells_mistakes_as_a_run_does(tmp_path: Path) -> None:
    """With the same exit code."""
    ended = run("config", "check", "--source", "a", "--rename", "x", cwd=tmp_path)
    assert ended.returncode == ExitCode.BAD_CONFIG
    assert len(ended.stderr.splitlines()) == 3


def test_flags_before_a_command_are_not_silently_dropped(tmp_path: Path) -> None:
    """Either they count, or they are refused."""
    ended = run("--topics", "mine", *CONFIG, "--output", "json", cwd=tmp_path)
    if ended.returncode == 0:
        assert json.loads(ended.stdout)["topics"] == {"value": "mine", "from": "flag"}
    else:
        assert "--topics" in ended.stderr


def test_the_config_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    """As containers do it."""
    file = tmp_path / "r.toml"
    file.write_text("source = 'a:1'\ntarget = 'b:1'\nlog_level = 'debug'\n")
    ended = run("config", "check", "--output", "json", cwd=tmp_path, REPLICATOR_CONFIG=str(file))
    assert json.loads(ended.stdout)["log_level"] == {"value": "debug", "from": str(file)}
