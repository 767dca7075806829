"""ACL 1.0 from the files of a broker, for brokers that do not give it over the wire."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from acl_sync.acl1 import parse
from acl_sync.model import AclState
from replicator.errors import StartupError

__all__ = ["read"]

_MAIN: Final = "plain_acl.yml"
#: Seconds that a file must not have changed for, and how long that is waited for at most.
_CALM: Final = 1.0
_PATIENCE: Final = 5.0


def read(place: Path) -> AclState:
    """Accounts and white lists in `place`: the `conf/` of a broker, with plain_acl.yml and acl/, or one file.

    Raises:
        StartupError: there is none, or one that cannot be read. Its content is not shown.
    """
    files = [place] if place.is_file() else list(_files(place))
    if not files:
        raise StartupError(
            f"{place} has neither {_MAIN} nor acl/*.yml", hint="name the conf directory of a broker of the source"
        )
    _wait_until_calm(files)
    return parse(_load(file) for file in files)


def _wait_until_calm(files: Iterable[Path]) -> None:
    """Who copies a file over it writes it bit by bit, and half a list of accounts is another list."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and any(_age(file) < _CALM for file in files):
        time.sleep(_CALM / 4)


def _age(file: Path) -> float:
    try:
        return time.time() - file.stat().st_mtime
    except OSError:
        return _CALM


def _files(place: Path) -> Iterator[Path]:
    """In the order in which a broker takes them: acl/ first."""
    found = (path for path in (place / "acl").rglob("*") if path.suffix in (".yml", ".yaml"))
    yield from sorted(path for path in found if path.is_file())
    if (place / _MAIN).is_file():
        yield place / _MAIN


def _load(file: Path) -> tuple[Any, Any]:
    import yaml  # noqa: PLC0415 - who has no such files starts sooner without it

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise StartupError(f"{file} cannot be read ({error.strerror})", hint="give read rights to it") from None
    except (yaml.YAMLError, ValueError) as error:
        # The error itself shows the line, which may be the one with the secret.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise StartupError(f"{file} is not valid YAML{where}", hint="fix the file; nothing was changed") from None
    if found is None:
        raise StartupError(f"{file} is empty", hint="fill it, or remove it; nothing was changed")
    if not isinstance(found, dict):
        raise StartupError(f"{file} holds no accounts", hint="it should begin with `accounts:`")
    return found.get("accounts"), found.get("globalWhiteRemoteAddresses")
