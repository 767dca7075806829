"""The programs that produce and consume orders: with an independent client, or else the project's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from replicator.demo.child import Child
from replicator.demo.pyclient import install

__all__ = ["Programs", "choose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The location of `producer` and `consumer`, and their environment."""

    client: str
    package: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def child(self, program: str, *arguments: str, directory: Path) -> Child:
        """`program`, not started yet. It keeps its own logs in `directory`, too."""
        # The independent client writes its logs below HOME.
        environment = {**os.environ, **self.environment, "HOME": str(directory)}
        return Child(
            f"{self.package}.{program}", *arguments, log=directory / f"{program}.log", environment=environment
        )


_OWN = Programs(client="the project's own client", package="replicator.demo.ownclient")


async def choose(directory: Path, *, say: Callable[[str], None]) -> Programs:
    """The programs of the independent client, installed at the first use; if that is not possible, our own."""
    log = directory / "install.log"
    if install.site() is None:
        say(f"installing the independent client {install.NAME} …")
    async with Child("replicator.demo.pyclient.install", log=log) as installer:
        site = await installer.read_line()
        code = await installer.ended(seconds=600)
    if code == 0:
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, (site, os.environ.get("PYTHONPATH"))))}
        found = Programs(client=install.NAME, package="replicator.demo.pyclient", environment=environment)
        async with found.child("shim", directory=directory) as shim:
            log, code = shim.log, await shim.ended(seconds=60)
        if code == 0:
            say(f"{install.NAME} works here: it produces and consumes")
            return found
    lines = log.read_text(errors="replace").strip().splitlines()
    reason = lines[-1] if lines else f"code {code}"
    say(f"{install.NAME} cannot be used here ({reason}): the orders go through {_OWN.client}.")
    return _OWN
