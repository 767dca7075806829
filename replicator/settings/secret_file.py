"""Secrets that stand in files of their own."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from replicator.errors import ConfigError

__all__ = ["others_can_use", "read_secret", "write_secret"]

#: Bytes of a secret that is made here.
_RANDOM: Final = 32
#: Bytes that are read of a file: a secret of a broker has a few dozen.
_BYTES: Final = 4096


def read_secret(name: str, path: Path, *, least: int = 1) -> str:
    """Content of the file at `path`, which the setting `name` names, without the line end that editors add.

    Args:
        least: characters that it must have.

    Raises:
        ConfigError: it is not a file or cannot be read, others can read it, or it is not one line of text.
    """
    shown = f"{name} = {str(path)!r}"
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe could be read once, and might have no writer
            raise ConfigError(f"{shown} is not a regular file", hint="name the file that has the secret")
        if others_can_use(found):
            raise ConfigError(f"{shown} can be read by others", hint="chmod 600 it")
        with path.open("rb") as file:
            data = file.read(_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read ({error.strerror})", hint="name a readable file") from None
    try:
        secret = data.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise ConfigError(f"{shown} is not text", hint="write the secret into it") from None
    if len(data) > _BYTES:
        raise ConfigError(f"{shown} has more than {_BYTES} bytes", hint="write the secret alone into it")
    if secret.startswith("\ufeff"):
        raise ConfigError(f"{shown} begins with a byte order mark", hint="save it as UTF-8 without one")
    if len(secret.splitlines()) > 1:
        raise ConfigError(f"{shown} has several lines", hint="write the secret alone into it")
    if not secret.isprintable():
        raise ConfigError(f"{shown} has control characters", hint="write the secret alone into it")
    if not secret:
        raise ConfigError(f"{shown} is empty", hint="write the secret into it")
    if len(secret) < least:
        raise ConfigError(
            f"{shown} has less than {least} characters", hint="make one with `replicator secret FILE`"
        )
    return secret


def others_can_use(found: os.stat_result) -> bool:
    """Whether a file is open to more than its owner.

    A file of root's may be readable by a group, which this process is in if it can read it: so Kubernetes mounts
    secrets for a pod's `fsGroup`, and PostgreSQL allows the same. For root, who reads every file, by another group.
    """
    mounted = found.st_uid == 0 and (os.geteuid() != 0 or found.st_gid != 0)
    return bool(found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) & ~(stat.S_IRGRP if mounted else 0))


def write_secret(path: Path) -> None:
    """Makes a secret in a new file that only its owner can read.

    Raises:
        ConfigError: there is such a file, or it cannot be made.
    """
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise ConfigError(f"{str(path)!r} exists and is not overwritten", hint="name a new file") from None
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be written ({error.strerror})",
            hint="name a file in a directory that you can write",
        ) from None
    with os.fdopen(file, "w") as opened:
        opened.write(f"{secrets.token_urlsafe(_RANDOM)}\n")
