"""Where an archive is: a directory of this machine's, or a place on a store that PyArrow reaches (S3, HDFS).

A file appears whole or not at all: an object store shows it once its upload is complete, a file system once it has
its name, which it gets after its last byte. Which files count is for the archive's manifest to say.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from replicator.errors import ConfigError, StartupError
from replicator.spark.jobs.hdfs import hdfs

__all__ = ["Location"]

#: What stands before the host of a URI: a user, or a key and a secret, which may be badly quoted.
_ACCOUNT: Final = re.compile(r"://(?:[^/@:]*:(?!\d+(?:/|$))(?P<secret>.*)@|[^/@]*@)")
#: How the AWS SDK tells an error, of which PyArrow makes a sentence.
_AWS: Final = re.compile(r"AWS Error (\w+) during \w+ operation: (.*?)(?: \(Request ID.*)?$")
#: How an error of a name node goes on after its first line, quoted or not.
_STACK: Final = re.compile(r"(\n|\\n)(\t|\\t)at .*", re.DOTALL)
_REASON: Final = 300
_HDFS: Final = "hdfs://"
_HINTS: Final = {
    "s3": "check the bucket, the credentials and AWS_ENDPOINT_URL",
    "hdfs": "check the name node, HADOOP_CONF_DIR and the user (HADOOP_USER_NAME)",
}
#: Spark's names of file systems, for which PyArrow has others.
_SPARKS: Final = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}

R = TypeVar("R")


@dataclass(frozen=True)
class Location:
    """A directory, by an absolute path or a URI with all that PyArrow takes there; names in it are relative to it.

    Its text has no secrets: neither the account of the URI, nor its parameters. Methods raise `OSError` unless they
    say something else; `reason` tells it in a line.
    """

    uri: str = field(repr=False)

    @classmethod
    def of(cls, given: str) -> Location:
        """The location that a user gives as a path or a URI.

        Raises:
            ConfigError: PyArrow does not know such URIs, or cannot use this one.
            StartupError: the store is not there: no library for it, or no such host.
        """
        if "://" not in given:
            return cls(str(Path(given).absolute()))
        location = cls(given)
        scheme = given.partition("://")[0]
        if scheme in _SPARKS:
            raise ConfigError(f"directory = {str(location)!r}", hint=f"PyArrow calls it {_SPARKS[scheme]}://")
        try:
            found, path = location._opened
        except (pa.ArrowInvalid, ValueError) as error:
            raise ConfigError(
                f"directory = {str(location)!r} cannot be used ({location.reason(error)})",
                hint="give a path, or a URI that PyArrow's file systems take: s3://, hdfs://, file://",
            ) from None
        except OSError as error:
            raise location.failed("reached", error) from None
        if not path.strip("/"):
            raise ConfigError(f"directory = {str(location)!r} names no directory", hint="add a bucket, or a path")
        return cls(path) if isinstance(found, fs.LocalFileSystem) else location

    def __str__(self) -> str:
        return _ACCOUNT.sub("://", self.uri).partition("?")[0] if "://" in self.uri else self.uri

    def at(self, name: str) -> str:
        """A file in it, for people."""
        return f"{str(self).rstrip('/')}/{name}"

    def reason(self, error: Exception) -> str:
        """Why something failed here, in one line without secrets."""
        code = getattr(error, "errno", None)
        if code and not self.is_remote:
            return os.strerror(code)
        text = " ".join(_STACK.sub("", str(error)).split())
        if (refused := _AWS.search(text)) is not None:
            text = f"{refused[1]}: {refused[2]}"
        text = text.replace(self.uri, str(self))
        if (account := _ACCOUNT.search(self.uri)) is not None and account["secret"]:
            for secret in (account["secret"], unquote(account["secret"])):
                text = text.replace(secret, "…")
        return text[:_REASON] or type(error).__name__

    def failed(self, done: str, error: Exception) -> StartupError:
        """The error that it cannot be `done` because of `error`."""
        hint = _HINTS.get(self.uri.partition("://")[0], "fix that, or name another directory")
        return StartupError(f"directory = {str(self)!r} cannot be {done} ({self.reason(error)})", hint=hint)

    async def run(self, work: Callable[..., R], *arguments: Any) -> R:
        """Calls `work`, which reads or writes here: in a thread where it may have to wait for a store."""
        return await asyncio.to_thread(work, *arguments) if self.is_remote else work(*arguments)

    def names(self) -> list[str]:
        """The files in it and below, also unfinished ones; none if it does not exist."""
        store, path = self._opened
        try:  # `allow_not_found` would allow a missing bucket too
            found = store.get_file_info(fs.FileSelector(path, recursive=True))
        except FileNotFoundError:
            return []
        start = len(path.rstrip("/")) + 1
        return [info.path[start:] for info in found if info.is_file]

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Bytes of files; None for one that does not exist."""
        found = self._opened[0].get_file_info([self._path(name) for name in names])
        return [info.size if info.is_file else None for info in found]

    def open(self, name: str) -> Any:
        """A file to be read at any place, a `pyarrow.NativeFile`."""
        return self._opened[0].open_input_file(self._path(name))

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None if it does not exist."""
        try:
            with self.open(name) as file:
                return bytes(file.readall())
        except FileNotFoundError:
            self.names()  # where the bucket is missing, this says so
            return None

    def create(self, name: str) -> Any:
        """A new file to be written, a `pyarrow.NativeFile`, which appears with `publish` at the latest."""
        path = self._draft_path(name)
        if not self.is_remote:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return pa.OSFile(path, "wb")
        return self._opened[0].open_output_stream(path)

    def closed(self, name: str) -> None:
        """Must follow when a created file is closed: its content is durable then."""
        if not self.is_remote:
            _sync(self._draft_path(name))

    def publish(self, names: Sequence[str]) -> None:
        """Gives closed files their names, durably."""
        for name in names if self._renames else ():
            self._opened[0].move(self._draft_path(name), self._path(name))
        if not self.is_remote:
            for directory in {os.path.dirname(self._path(name)) for name in names}:  # noqa: PTH120 - they are texts
                _sync(directory)

    def replace(self, name: str, content: bytes) -> None:
        """Writes a small file; readers see the old content or the new one."""
        with self.create(name) as file:
            file.write(content)
        if not self.is_remote:
            Path(self._draft_path(name)).chmod(0o600)
        self.closed(name)
        self.publish([name])

    def remove(self, names: Iterable[str]) -> None:
        """Removes files, also such that are not published; those that do not exist are removed already."""
        for name in names:
            for path in {self._path(name), self._draft_path(name)}:
                try:
                    self._opened[0].delete_file(path)
                except FileNotFoundError:
                    continue

    def draft(self, name: str) -> str:
        """What a file is called while it is written."""
        return _draft(name) if self._renames else name

    @property
    def _opened(self) -> tuple[Any, str]:
        return _open(self.uri)

    @property
    def is_remote(self) -> bool:
        """Whether each read and write is a request to a store."""
        return "://" in self.uri

    @property
    def _renames(self) -> bool:
        """Whether files get their names when they are complete: object stores show no others anyway."""
        return not self.is_remote or self.uri.startswith(_HDFS)

    def _path(self, name: str) -> str:
        return f"{self._opened[1].rstrip('/')}/{name}"

    def _draft_path(self, name: str) -> str:
        return self._path(self.draft(name))


@lru_cache
def _open(uri: str) -> tuple[Any, str]:
    """The file system, once per process, with the path of a URI there."""
    if "://" not in uri:
        return fs.LocalFileSystem(), uri
    if uri.startswith(_HDFS):
        return hdfs(uri)
    store, path = fs.FileSystem.from_uri(uri)
    return store, path


def _draft(name: str) -> str:
    """The name of a file that is not complete: readers of Parquet skip it."""
    path = PurePosixPath(name)
    return str(path.with_name(f".{path.name}"))


def _sync(path: str) -> None:
    """Syncs a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
