"""Compiles `replicator/protocol/uniform_run.c` when the package is built or installed; the compiler is a wheel."""

from __future__ import annotations

import platform
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "replicator/protocol/uniform_run.c"
LIBRARY = "replicator/protocol/_uniform_run.so"
#: It also runs on other machines than the one that built it, so only with instructions that every processor has.
FLAGS = ("-O2", "-g0", "-s", "-mcpu=baseline", "-shared", "-fPIC", "-std=c11", "-Wall", "-Wextra", "-Werror")
#: The oldest C library that it runs with, as in manylinux2014.
GLIBC = "2.17"


class Compile(BuildHookInterface[BuilderConfig]):
    """Adds the library to the wheel, which is then one for this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        machine = platform.machine()
        glibc = sys.platform == "linux" and platform.libc_ver()[0] == "glibc" and machine in ("x86_64", "aarch64")
        target = ("-target", f"{machine}-linux-gnu.{GLIBC}") if glibc else ()
        command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, *target, "-o", LIBRARY, SOURCE]
        subprocess.run(command, check=True, cwd=root)
        build_data["artifacts"].append(LIBRARY)
        build_data["pure_python"] = False
        # It does not use Python's API, so one wheel serves all versions.
        here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = "py3-none-" + (f"manylinux_{GLIBC.replace('.', '_')}_{machine}" if glibc else here)
