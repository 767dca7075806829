"""A user's shell: what a guide says to type is typed there, with the addresses of real clusters for its names."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.client.peer import unused_port

__all__ = ["Terminal"]

#: As the installed program is called, whatever is on the path.
_PROGRAM = [sys.executable, "-m", "replicator"]
_SECONDS = 120.0


class Terminal:
    """A shell in a directory of its own.

    `names` are words of the guide, such as `OLD`, and what they stand for; `environment` is added to that of the
    tests, but for their settings of the program.
    """

    def __init__(
        self, directory: Path, names: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.names = dict(names or {})
        self.port = unused_port()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("REPLICATOR_")},
            "XDG_STATE_HOME": str(directory / "state"),
            "COLUMNS": "200",
            "REPLICATOR_URL": f"http://127.0.0.1:{self.port}",
            **(environment or {}),
        }
        self._begun: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._begun:
            if process.poll() is None:
                process.kill()
                process.wait()

    def type(self, line: str, *, code: int = 0) -> str:
        """What the command prints; it must end with `code`."""
        ended = self._run(line)
        assert ended.returncode == code, (line, ended.stdout, ended.stderr)
        return ended.stdout

    def answer(self, line: str, reply: str) -> str:
        """What the command prints with a user in front of it, who types `reply` once it asks; it must succeed."""
        ours, theirs = pty.openpty()
        try:
            with subprocess.Popen(
                self._words(line),
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=self._environment,
            ) as process:
                os.write(ours, f"{reply}\n".encode())
                shown = process.communicate(timeout=_SECONDS)[0].decode()
        finally:
            os.close(ours)
            os.close(theirs)
        assert process.returncode == 0, (line, shown)
        return shown

    def begin(self, line: str, **environment: str) -> subprocess.Popen[bytes]:
        """Starts a worker, as in another terminal; it is killed at the end of the test."""
        words = self._words(line)
        if "--rest-port" not in words:
            words += ["--rest-port", str(self.port)]
        env = self._environment | environment
        with self._log(len(self._begun)).open("wb") as log:
            self._begun.append(subprocess.Popen(words, stderr=log, cwd=self.directory, env=env))
        return self._begun[-1]

    def until(self, line: str, pattern: str) -> str:
        """Types `line` again and again, until it prints that, whatever its exit code."""
        deadline = time.monotonic() + _SECONDS
        while True:
            ended = self._run(line)
            if re.search(pattern, ended.stdout):
                return ended.stdout
            logs = "".join(self._log(number).read_text()[-2000:] for number in range(len(self._begun)))
            assert time.monotonic() < deadline, (line, ended.stdout, ended.stderr, logs)
            time.sleep(0.3)

    def _run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._words(line),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            env=self._environment,
            timeout=_SECONDS,
        )

    def _log(self, number: int) -> Path:
        return self.directory / f"{number}.log"

    def _words(self, line: str) -> list[str]:
        for name, value in self.names.items():
            line = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", value, line)
        program, *words = shlex.split(line)
        assert program == "replicator"
        return [*_PROGRAM, *words]
