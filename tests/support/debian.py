"""Programs of Debian's packages, unpacked into the user's cache; no root is needed."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from replicator.sandbox.jars import cache_directory

__all__ = ["program", "unpacked"]

#: Lets apt work without its lock, which only root may take: nothing is installed.
_UNLOCKED = ("-o", "Debug::NoLocking=1")


def program(name: str, package: str) -> str:
    """What is installed as `name`, else what the package has, which is fetched once.

    Raises:
        AssertionError: there is none, and none can be had.
    """
    installed = shutil.which(name)
    if installed:
        return installed
    found = unpacked(package) / "usr" / "bin" / name
    assert found.exists(), f"{package} has no {name}"
    return str(found)


def unpacked(package: str, *, with_others: bool = False) -> Path:
    """The directory that a package is unpacked in, which is fetched once.

    Args:
        with_others: whether those that it depends on and are not installed are unpacked there, too.

    Raises:
        AssertionError: it cannot be had.
    """
    root = cache_directory().parent / "debian"
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / package).exists():
            _unpack(package, root, with_others=with_others)
    return root / package


def _unpack(package: str, root: Path, *, with_others: bool) -> None:
    """Fetches the package as apt does: where apt has no lists of it, with lists of our own."""
    work = root / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for each in ("lists/partial", "cache/archives/partial"):
        (root / each).mkdir(parents=True, exist_ok=True)
    own = ("-o", f"Dir::State::Lists={root}/lists", "-o", f"Dir::Cache={root}/cache")
    fetched, said = _fetch(package, root, work, own[2:], with_others=with_others)
    if not fetched:
        if not list((root / "lists").glob("*Packages*")):
            said += _run(work, "apt-get", *own, "update")
        fetched, more = _fetch(package, root, work, own, with_others=with_others)
        said += more
    assert fetched, f"install {package}: it is not on the PATH, and apt-get cannot fetch it:\n{said}"
    for archive in fetched:
        said = _run(work, "dpkg-deb", "-x", str(archive), str(work / "package"))
    assert (work / "package" / "usr").exists(), said
    (work / "package").rename(root / package)
    shutil.rmtree(work)
    shutil.rmtree(root / "cache")


def _fetch(
    package: str, root: Path, work: Path, options: Sequence[str], *, with_others: bool
) -> tuple[list[Path], str]:
    """The archives, none if they cannot be had, and what apt has said."""
    if not with_others:
        said = _run(work, "apt-get", *options, "download", package)
        return list(work.glob("*.deb")), said
    install = ("--download-only", "--no-install-recommends", "--yes", "install", package)
    said = _run(work, "apt-get", *_UNLOCKED, *options, *install)
    found = list((root / "cache" / "archives").glob("*.deb"))
    return (found if any(each.name.startswith(f"{package}_") for each in found) else []), said


def _run(directory: Path, *command: str) -> str:
    try:
        ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=200, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}\n"
    return ended.stdout + ended.stderr
