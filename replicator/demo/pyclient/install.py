"""Installs rocketmq-client-python into the user's cache: `python -m replicator.demo.pyclient.install`.

Version 2.0.0 is pure ctypes code without the C++ library it binds; the package `rocketmq` bundles one that
fits except for four functions (see shim.py). Each is installed separately, since both have the same import name.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["NAME", "install", "site"]

NAME = "rocketmq-client-python"

_CODE = f"{NAME}==2.0.0"
_LIBRARY = "rocketmq==0.4.4"
_LIBRARY_NAME = "librocketmq.so"
_LIBRARY_SHA256 = "eecafaf7c86bb0c15c3d7c707fe1c3d221a45097a1ee18604f41ef68bc9ab645"


def _directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rocketmq-replicator" / "pyclient"


def site() -> Path | None:
    """The directory of the import package `rocketmq`; None if it is not installed."""
    found = _directory() / "site"
    # The library comes last: it marks a complete installation.
    return found if (found / "rocketmq" / _LIBRARY_NAME).exists() else None


def install() -> Path:
    """The same directory; installs the package if it is missing.

    Raises:
        RuntimeError: it does not support this machine, or is not the library that was tested.
        subprocess.CalledProcessError: pip failed, and has printed the reason.
    """
    system = (sys.platform, platform.machine(), platform.libc_ver()[0])
    if system != ("linux", "x86_64", "glibc"):
        raise RuntimeError(f"there is no library for {' '.join(part for part in system if part)}")
    directory = _directory()
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return site() or _install(directory)


def _install(directory: Path) -> Path:
    made, blob = directory / "site", directory / "blob"
    for leftover in (made, blob):
        shutil.rmtree(leftover, ignore_errors=True)
    _pip(_LIBRARY, blob)
    _pip(_CODE, made)
    library = blob / "rocketmq" / _LIBRARY_NAME
    if hashlib.sha256(library.read_bytes()).hexdigest() != _LIBRARY_SHA256:
        raise RuntimeError(f"{_LIBRARY_NAME} of {_LIBRARY} is not the one that was tried out")
    # Its own zlib is in the same directory and is found relative to it.
    shutil.copytree(blob / "rocketmq" / ".libs", made / "rocketmq" / ".libs", dirs_exist_ok=True)
    fresh = made / "rocketmq" / f"{_LIBRARY_NAME}.fresh"
    shutil.copy2(library, fresh)
    fresh.rename(made / "rocketmq" / _LIBRARY_NAME)
    shutil.rmtree(blob)
    return made


def _pip(requirement: str, target: Path) -> None:
    # No dependencies: both name packages for Python 2 only. Indexes are those of the user's own pip.
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(target)]
    command = [sys.executable, "-m", "pip", "install", *options, requirement]
    subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603 - our standard output is for the result


def main() -> None:
    try:
        print(install())
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
