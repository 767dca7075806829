"""Programs of Debian's packages, unpacked into the user's cache; no root is needed."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

from replicator.sandbox.jars import cache_directory

__all__ = ["program"]


def program(name: str, package: str) -> str:
    """What is installed as `name`, else what the package has, which is fetched once.

    Raises:
        AssertionError: there is none, and none can be had.
    """
    installed = shutil.which(name)
    if installed:
        return installed
    root = cache_directory().parent / "debian"
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / package).exists():
            _unpack(package, root)
    found = root / package / "usr" / "bin" / name
    assert found.exists(), f"{package} has no {name}"
    return str(found)


def _unpack(package: str, root: Path) -> None:
    """Fetches the package as apt does: where apt has no lists, with lists of our own."""
    work = root / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for each in ("lists/partial", "cache/archives/partial"):
        (root / each).mkdir(parents=True, exist_ok=True)
    own = ("-o", f"Dir::State::Lists={root}/lists", "-o", f"Dir::Cache={root}/cache")
    said = _run(work, "apt-get", "download", package)
    if not list(work.glob("*.deb")):
        if not list((root / "lists").glob("*Packages*")):
            said += _run(work, "apt-get", *own, "update")
        said += _run(work, "apt-get", *own, "download", package)
    found = list(work.glob("*.deb"))
    assert found, f"install {package}: it is not on the PATH, and apt-get cannot fetch it:\n{said}"
    said = _run(work, "dpkg-deb", "-x", str(found[0]), str(work / "package"))
    assert (work / "package" / "usr" / "bin").exists(), said
    (work / "package").rename(root / package)
    shutil.rmtree(work)


def _run(directory: Path, *command: str) -> str:
    try:
        ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=200, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}\n"
    return ended.stdout + ended.stderr
