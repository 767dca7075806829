"""Files of state: JSON that a person can read, written whole or not at all, with a checksum.

A file that fails its checksum is set aside as `NAME.corrupt-TIMESTAMP`, and the caller starts without it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from replicator.errors import StartupError
from replicator.observe.logging import get_logger

__all__ = ["VERSION", "Damaged", "decode", "encode", "read", "remove_unused", "write"]

#: Of the files' form. A newer one is refused, since guessing its meaning could lose messages.
VERSION: Final = 1

log = get_logger(__name__)

#: Of the writes of this process, in the order in which they began.
_numbers = itertools.count(1)
#: By file, the write that it is from; held while a file gets its name.
_newest: dict[Path, int] = {}
_naming = threading.Lock()


class Damaged(Exception):
    """What was read is not a state file, or not a whole one."""


def encode(content: object) -> bytes:
    """The bytes of a state file."""
    body = msgspec.json.encode(content)
    document = {"version": VERSION, "sha256": _digest(body), "content": msgspec.Raw(body)}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def decode(data: bytes, name: str) -> Any:
    """The content of a state file's bytes; `name` is what errors call it.

    Raises:
        Damaged: it cannot be trusted.
        StartupError: it was written by a newer version.
    """
    try:
        document = msgspec.json.decode(data)
        version, digest, content = document["version"], document["sha256"], document["content"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        raise Damaged("it is not a state file") from None
    if not isinstance(version, int):
        raise Damaged("it is not a state file")
    if version > VERSION:
        raise StartupError(
            f"{name} has version {version}, this program knows up to {VERSION}",
            hint="run the newer version, or move the file away: progress is then read from the target",
        )
    if digest != _digest(msgspec.json.encode(content)):
        raise Damaged("its checksum does not match")
    return content


def write(path: Path, content: object) -> None:
    """Replaces `path` by `content`; a crash leaves the old file or the new one.

    Of two writes at once, in two threads, the one that began last wins, whichever ends last.

    Raises:
        OSError: the directory cannot be written.
    """
    number = next(_numbers)
    data = encode(content)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{number}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with _naming:
            if number < _newest.get(path, 0):
                temporary.unlink(missing_ok=True)
                return
            temporary.replace(path)
            _newest[path] = number
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read(path: Path) -> Any | None:
    """The content of `path`; None when there is none, or none that can be trusted.

    Raises:
        StartupError: it cannot be read or set aside, or was written by a newer version.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartupError(
            f"{path} cannot be read ({error.strerror})", hint="give its owner's rights back"
        ) from None
    try:
        return decode(data, str(path))
    except Damaged as reason:
        _set_aside(path, str(reason))
        return None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _set_aside(path: Path, reason: str) -> None:
    aside = path.with_name(f"{path.name}.corrupt-{time.strftime('%Y%m%dT%H%M%S')}.{time.time_ns() % 10**9:09d}")
    try:
        path.replace(aside)
    except OSError as error:
        raise StartupError(
            f"{path} is damaged ({reason}) and cannot be set aside ({error.strerror})",
            hint="make its directory writable, or move the file away",
        ) from None
    log.warning("state file set aside", file=str(path), kept_as=str(aside), reason=reason)


def remove_unused(directory: Path, lock: str) -> None:
    """Removes a directory in which there is nothing but the file `lock`."""
    try:
        if [path.name for path in directory.iterdir()] == [lock]:
            (directory / lock).unlink()
            directory.rmdir()
    except FileNotFoundError:
        log.warning(
            "the state directory was removed while it was in use",
            path=str(directory),
            hint="nothing was saved since; wait until the worker has ended before you remove it",
        )
    except OSError as error:
        log.warning("the state directory cannot be removed", path=str(directory), reason=str(error))
