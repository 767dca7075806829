"""ACL 1.0 from the files of a broker, for brokers that do not give it over the wire."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from acl_sync.acl1 import parse
from acl_sync.model import AclState, Note
from replicator.errors import StartupError

__all__ = ["read"]

_MAIN: Final = "plain_acl.yml"
#: Seconds that a file must not have changed for, and how long that is waited for at most.
_CALM: Final = 1.0
_PATIENCE: Final = 5.0
#: Bytes of a file, at most: more than any broker could write again at each change.
_BYTES: Final = 16 * 1024 * 1024
#: What a file has: accounts, and addresses that need none.
_ACCOUNTS: Final = "accounts"
_WHITE: Final = "globalWhiteRemoteAddresses"


def read(place: Path, *, own: str = "") -> AclState:
    """Accounts and white lists in `place`: the `conf/` of a broker, with plain_acl.yml and acl/, or one file.

    Args:
        own: the account that this program runs as at the source, if any: a list without it is not the source's.

    Raises:
        StartupError: there is none, one cannot be read, or none has our own account. What they say is not shown.
    """
    files = [place] if place.is_file() else list(_files(place))
    if not files:
        raise StartupError(
            f"{place} has neither {_MAIN} nor acl/*.yml", hint="name the conf directory of a broker of the source"
        )
    is_calm = _wait_until_calm(files)
    state = parse(_load(file) for file in files)
    if own and own not in state.accounts.keys() | state.unsure:
        raise StartupError(
            f"the files of {place} lack our own account, {own}: they are not whole, or not the source's",
            hint="name the conf directory of a broker of the source; nothing was changed",
        )
    if is_calm:
        return state
    note = Note("", f"{place} is being written: nothing counts as gone until its files stay as they are")
    return replace(state, complete=False, notes=(*state.notes, note))


def _wait_until_calm(files: Sequence[Path]) -> bool:
    """Whether no file is being written, which is waited for: half a list of accounts is another list."""
    until = time.monotonic() + _PATIENCE
    while any(_age(file) < _CALM for file in files):
        if time.monotonic() >= until:
            return False
        time.sleep(_CALM / 4)
    return True


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
    from acl_sync import plain_yaml  # noqa: PLC0415 - who has no such files starts sooner without it

    try:
        found = plain_yaml.load(_text(file))
    except OSError as error:
        raise StartupError(f"{file} cannot be read ({error.strerror})", hint="give read rights to it") from None
    except (plain_yaml.NotYaml, UnicodeDecodeError) as error:
        line = error.line if isinstance(error, plain_yaml.NotYaml) else 0
        where = f" at line {line}" if line else ""
        raise StartupError(
            f"{file} is not valid YAML{where}, or has aliases", hint="fix the file; nothing was changed"
        ) from None
    if found is None:
        raise StartupError(f"{file} is empty", hint="fill it, or remove it; nothing was changed")
    if not isinstance(found, dict) or not found.keys() & {_ACCOUNTS, _WHITE}:
        raise StartupError(f"{file} holds no accounts", hint="it should begin with `accounts:`")
    accounts, white = found.get(_ACCOUNTS, []), found.get(_WHITE) or []  # brokers take an empty one for none
    for name, value in ((_ACCOUNTS, accounts), (_WHITE, white)):
        if not isinstance(value, list):
            raise StartupError(
                f"{file} holds no list of {name}",
                hint=f"where it has none, write `{name}: []`; nothing was changed",
            )
    return accounts, white


def _text(file: Path) -> str:
    with file.open("rb") as opened:
        data = opened.read(_BYTES + 1)
    if len(data) > _BYTES:
        raise StartupError(f"{file} is longer than {_BYTES:,} bytes", hint="is it a broker's file of accounts?")
    return data.decode()
