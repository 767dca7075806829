"""The jars of each RocketMQ version, as in the lock file: from the cache, Maven's cache or the network."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from replicator.errors import SandboxError
from replicator.sandbox import download, maven

__all__ = ["Jar", "cache_directory", "ensure", "locked"]

#: Jars that are fetched at a time: most are small, so latency counts; browsers use as many connections per host.
_PARALLEL = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One jar: its path in a Maven repository, and its expected contents."""

    path: str
    size: int
    sha256: str


@cache
def locked() -> dict[str, tuple[Jar, ...]]:
    """The lock file's jars by group: one per RocketMQ version, and `ecj`."""
    text = resources.files("replicator.sandbox").joinpath("jars.lock.json").read_text(encoding="utf-8")
    groups: dict[str, list[Jar]] = {}
    for entry in json.loads(text)["jars"]:
        jar = Jar(path=entry["path"], size=entry["size"], sha256=entry["sha256"])
        for group in entry["groups"]:
            groups.setdefault(group, []).append(jar)
    return {group: tuple(jars) for group, jars in groups.items()}


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rocketmq-replicator" / "jars"


def ensure(group: str, *, console: Console | None = None) -> list[Path]:
    """The group's jars on disk, downloaded if missing. Raises SandboxError if they cannot be obtained."""
    root = cache_directory()
    jars = locked()[group]
    paths = [root / jar.path for jar in jars]
    if not _missing(jars, root):
        return paths
    root.mkdir(parents=True, exist_ok=True)
    with _exclusive(root / ".lock"):
        # Again: another process may have downloaded them while this one waited.
        wanted = [jar for jar in _missing(jars, root) if not _from_local_maven(jar, root)]
        if wanted:
            _fetch(group, wanted, root=root, console=console or Console(stderr=True))
    return paths


def _missing(jars: tuple[Jar, ...], root: Path) -> list[Jar]:
    # They are programs that are run: what has changed since it was fetched is fetched again.
    return [jar for jar in jars if not _is_there(root / jar.path, jar)]


def _is_there(path: Path, jar: Jar) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_size == jar.size and _digest(path, found.st_ino, found.st_mtime_ns) == jar.sha256


@cache
def _digest(path: Path, _inode: int, _changed: int) -> str:
    """Once for each state of a file: hashing the 100 MB of a version takes a fraction of a second."""
    return download.digest(path)


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _from_local_maven(jar: Jar, root: Path) -> bool:
    present = maven.local_repository() / jar.path
    if not _has_size(present, jar.size) or download.digest(present) != jar.sha256:
        return False
    target = root / jar.path
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(target.name + ".copy")
    fresh.unlink(missing_ok=True)
    try:
        os.link(present, fresh)
    except OSError:  # another file system
        shutil.copyfile(present, fresh)
    fresh.replace(target)
    return True


def _fetch(group: str, wanted: list[Jar], *, root: Path, console: Console) -> None:
    origin = maven.source()
    total = sum(jar.size for jar in wanted)
    title = _title(group)
    if not console.is_terminal:
        console.print(f"Fetching {title}: {len(wanted)} files, {total / 1e6:.0f} MB from {origin.repository}")
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"Fetching {title}", total=total)
        quarters = _Quarters(title, total, console)
        failed = threading.Event()
        interrupted = threading.Event()

        def arrived(count: int) -> None:
            if interrupted.is_set():
                raise _Interrupted
            progress.advance(task, count)
            quarters.add(count)

        def one(jar: Jar) -> tuple[Jar, OSError] | None:
            if failed.is_set() or interrupted.is_set():  # offline: one failure is enough
                return None
            try:
                download.fetch(
                    origin.opener(),
                    origin.url(jar.path),
                    target=root / jar.path,
                    size=jar.size,
                    sha256=jar.sha256,
                    advance=arrived,
                )
            except OSError as error:
                failed.set()
                return jar, error
            except _Interrupted:  # what has come stays for the next time
                return None
            return None

        with ThreadPoolExecutor(_PARALLEL, thread_name_prefix="jars") as pool:
            try:
                failures = [failure for failure in pool.map(one, wanted) if failure]
            except BaseException:  # Ctrl-C; the pool waits for its threads
                interrupted.set()
                raise
    if failures:
        raise _error(title, failures, wanted=wanted, root=root, repository=origin.repository)


class _Interrupted(Exception):
    """Nobody waits for the file any more."""


class _Quarters:
    """Says how much of `total` bytes is there, a quarter at a time, where a console shows no moving bar."""

    def __init__(self, title: str, total: int, console: Console) -> None:
        self._title = title
        self._total = total
        self._console = console
        self._count = 0
        self._said = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """More bytes are there, or fewer where a file has to be fetched again; any thread says so."""
        with self._lock:
            self._count += count
            if (now := 4 * self._count // self._total) > self._said and not self._console.is_terminal:
                self._said = now
                self._console.print(f"Fetching {self._title}: {25 * now} % of {self._total / 1e6:.0f} MB")


def _error(
    title: str, failures: list[tuple[Jar, OSError]], *, wanted: list[Jar], root: Path, repository: str
) -> SandboxError:
    jar, error = failures[0]
    left = sum(1 for each in wanted if not _has_size(root / each.path, each.size))
    reason = getattr(error, "reason", None) or error
    return SandboxError(
        f"{title} cannot be fetched: {jar.path} from {repository} ({reason}); {left} files are missing",
        hint="go online, or set REPLICATOR_MAVEN_REPOSITORY to a mirror of Maven Central, "
        f"or copy {root} from a machine that has it",
    )


def _title(group: str) -> str:
    return {"ecj": "the Java compiler", "hadoop": "Hadoop"}.get(group, f"RocketMQ {group}")
