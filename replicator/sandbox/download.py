"""Downloads one file over HTTP: resumable, verified, and visible only when complete."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

__all__ = ["ChecksumMismatch", "digest", "fetch"]

#: Bytes that are read at a time.
_CHUNK = 256 * 1024
#: Seconds without a byte after which an attempt has failed.
_STALLED_SECONDS = 30
#: A repository fails for moments; what fails three times is reported.
_ATTEMPTS = 3


class ChecksumMismatch(OSError):
    """The server sent other bytes than the lock file specifies."""


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(
    opener: urllib.request.OpenerDirector,
    url: str,
    *,
    target: Path,
    size: int,
    sha256: str,
    advance: Callable[[int], None],
) -> None:
    """Download `url` to `target`. After a failure the received part stays beside it as `.part` for a retry."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".part")
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _transfer(opener, url, partial=partial, size=size, advance=advance)
            break
        except urllib.error.HTTPError as error:
            error.close()  # it keeps the connection open
            raise OSError(f"{error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            if attempt == _ATTEMPTS:
                raise OSError(str(error) or type(error).__name__) from error
    found = digest(partial)
    if found != sha256:
        partial.unlink()
        raise ChecksumMismatch(f"its sha256 is {found}, expected {sha256}")
    partial.replace(target)


def _transfer(
    opener: urllib.request.OpenerDirector,
    url: str,
    *,
    partial: Path,
    size: int,
    advance: Callable[[int], None],
) -> None:
    have = partial.stat().st_size if partial.exists() else 0
    if have > size:  # larger than expected: start over
        have = 0
    if have == size:
        advance(have)
        return
    request = urllib.request.Request(url)  # noqa: S310 - http(s) only, checked where the source is made
    if have:
        request.add_header("Range", f"bytes={have}-")
    with contextlib.closing(opener.open(request, timeout=_STALLED_SECONDS)) as response:
        if have and response.status != http.HTTPStatus.PARTIAL_CONTENT:
            have = 0  # the server does not support ranges: it sends the whole file
        moved = have
        advance(have)
        try:
            with partial.open("ab" if have else "wb") as file:
                while chunk := response.read(_CHUNK):
                    file.write(chunk)
                    moved += len(chunk)
                    advance(len(chunk))
                os.fsync(file.fileno())
        except (OSError, http.client.HTTPException):
            advance(-moved)
            raise
    if moved < size:
        advance(-moved)
        raise http.client.IncompleteRead(b"", size - moved)
