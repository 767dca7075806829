"""Compiles `replicator/protocol/uniform_run.c` when the package is built or installed; the compiler is a wheel.

By default it is for this machine. `REPLICATOR_WHEEL` chooses another platform of `PLATFORMS`, or `any` for a wheel
without compiled code, which runs everywhere and is slower.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "replicator/protocol/uniform_run.c"
LIBRARY = "replicator/protocol/_uniform_run.so"
#: It also runs on other machines than the one that built it, so only with instructions that every processor has.
FLAGS = ("-O2", "-g0", "-s", "-mcpu=baseline", "-shared", "-fPIC", "-std=c11", "-Wall", "-Wextra", "-Werror")
#: The oldest C library that it runs with, as in manylinux2014.
GLIBC = "2.17"
_MANYLINUX = f"manylinux_{GLIBC.replace('.', '_')}"

#: Platforms of wheels, as in their names, and the compiler's word for each.
PLATFORMS = {
    f"{_MANYLINUX}_x86_64": f"x86_64-linux-gnu.{GLIBC}",
    f"{_MANYLINUX}_aarch64": f"aarch64-linux-gnu.{GLIBC}",
    "musllinux_1_1_x86_64": "x86_64-linux-musl",
    "musllinux_1_1_aarch64": "aarch64-linux-musl",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
}
#: A wheel without compiled code.
ANY = "any"


def here() -> str:
    """The platform of this machine: one of `PLATFORMS` where it can be named so."""
    machine = platform.machine()
    name = f"{_MANYLINUX}_{machine}"
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc" and name in PLATFORMS:
        return name
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def compile_for(name: str, library: Path, *, root: Path) -> None:
    """Compiles for platform `name`; the compiler's own one where that is not one of `PLATFORMS`."""
    target: tuple[str, ...] = ("-target", PLATFORMS[name]) if name in PLATFORMS else ()
    if "macos" in name:  # libraries there have a name of their own, by default the path of the output
        target += ("-Wl,-install_name,@rpath/_uniform_run.so",)
    command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, *target, "-o", str(library), SOURCE]
    subprocess.run(command, check=True, cwd=root)


class Compile(BuildHookInterface[BuilderConfig]):
    """Adds the library to the wheel, which is then one for its platform."""

    _elsewhere: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        own = here()
        name = os.environ.get("REPLICATOR_WHEEL") or own
        if name == ANY:
            return
        if name not in (own, *PLATFORMS):
            raise ValueError(f"REPLICATOR_WHEEL={name}: must be {ANY} or one of {', '.join(PLATFORMS)}")
        if name == own:
            compile_for(name, Path(self.root, LIBRARY), root=Path(self.root))
            build_data["artifacts"].append(LIBRARY)
        else:  # what this machine cannot load is never in the tree
            self._elsewhere = TemporaryDirectory()
            library = Path(self._elsewhere.name, "library.so")
            compile_for(name, library, root=Path(self.root))
            build_data["force_include"][str(library)] = LIBRARY
        build_data["pure_python"] = False
        # It does not use Python's API, so one wheel serves all versions.
        build_data["tag"] = f"py3-none-{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._elsewhere is not None:
            self._elsewhere.cleanup()
