"""Compiles `replicator/protocol/uniform_run.c` when the package is built or installed; the compiler is a wheel."""

from __future__ import annotations

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
FLAGS = ("-O2", "-mcpu=baseline", "-shared", "-fPIC", "-std=c11", "-Wall", "-Wextra", "-Werror")


class Compile(BuildHookInterface[BuilderConfig]):
    """Adds the library to the wheel, which is then one for this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, "-o", str(root / LIBRARY), str(root / SOURCE)]
        subprocess.run(command, check=True)
        build_data["artifacts"].append(LIBRARY)
        build_data["pure_python"] = False
        # It does not use Python's API, so one wheel serves all versions.
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
