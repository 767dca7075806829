"""One Spark session for all tests: two tasks at a time, three attempts each."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from replicator.cli import app
from replicator.observe.logging import configure
from replicator.spark.engine import session as sessions
from replicator.spark.engine.session import session
from tests.support.printed import check_printed
from tests.support.spark_archive import archive_flags


@pytest.fixture(autouse=True)
def quick_starts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers that a test starts load Spark's classes from an archive; executors do where the test says so."""
    if request.node.get_closest_marker("brokers") or request.node.get_closest_marker("spark"):
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"-XX:+UseSerialGC -Xmn200m {archive_flags()}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Begun with no Java on PATH and in JAVA_HOME, so on that of the sandbox."""
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
        "spark.driver.memory": "1g",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(tmp_path_factory.mktemp("events")),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        # It would hide secrets that are called so, as those of the tests are, from tests that look for them.
        "spark.redaction.regex": "(?!)",
    }
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(_without_java(tmp_path_factory.mktemp("bin"))))
            patch.setenv("JAVA_HOME", str(tmp_path_factory.mktemp("no-java")))
            patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
            assert shutil.which("java") is None
            spark = stack.enter_context(session(master="local[2,3]", conf=conf))
        yield spark


@pytest.fixture
def logs_aside() -> Iterator[None]:
    """The log goes to this process's standard error, whatever a test takes for its own meanwhile."""
    configure(level="error")
    yield
    configure()


@pytest.fixture
def session_of_pages(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What examples in docs/ take for a session of their own is the tests'."""

    @contextmanager
    def ours() -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(sessions, "session", ours)


@pytest.fixture
def command(spark: Any, logs_aside: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`await command("verify", …)`: a command in this process, with the tests' own Spark session."""

    @contextmanager
    def ours(*, master: str | None = None) -> Iterator[Any]:
        assert master is None
        yield spark

    for module in ("backfill", "verify", "export", "restore"):
        place = f"replicator.operate.jobs.{module}"
        monkeypatch.setattr(f"{place}.session", ours)
        monkeypatch.setattr(f"{place}.configure", lambda level: None)  # the runner closes what it would log to

    async def run(*arguments: object) -> Result:
        given = [str(each) for each in arguments]
        ended = await asyncio.to_thread(CliRunner().invoke, app, given, catch_exceptions=True)
        check_printed(given, ended.stdout)
        return ended

    return run


def _without_java(directory: Path) -> Path:
    """A directory of links to what Spark's scripts call."""
    for name in (
        "bash",
        "sh",
        "chmod",
        "env",
        "dirname",
        "basename",
        "readlink",
        "ps",
        "grep",
        "cat",
        "rm",
        "mkdir",
        "uname",
        "ls",
        "nice",
        "head",
        "tr",
        "sed",
    ):
        for place in (Path("/bin"), Path("/usr/bin")):
            if (place / name).exists():
                (directory / name).symlink_to(place / name)
                break
    return directory
