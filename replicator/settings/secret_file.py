"""Secrets that stand in files of their own."""

from __future__ import annotations

import stat
from pathlib import Path

from replicator.errors import ConfigError

__all__ = ["read_secret"]


def read_secret(name: str, path: Path) -> str:
    """Content of the file at `path`, which the setting `name` names, without the line end that editors add.

    Raises:
        ConfigError: it cannot be read, others can read it, or there is nothing in it.
    """
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(f"{name} = {str(path)!r} can be read by others", hint="chmod 600 it")
        secret = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(
            f"{name} = {str(path)!r} cannot be read ({error.strerror})", hint="name a readable file"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{name} = {str(path)!r} is not text", hint="write the secret into it") from None
    if not secret:
        raise ConfigError(f"{name} = {str(path)!r} is empty", hint="write the secret into it")
    return secret
