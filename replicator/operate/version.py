"""Versions of the installed software."""

from __future__ import annotations

import platform
from importlib import metadata

from replicator import __version__
from replicator.command_output import Output, Shown, show
from replicator.operate.reports import Versions
from replicator.operate.show import table
from replicator.protocol.uniform_run import COMPILED

__all__ = ["version"]


def version(output: Shown = Output.TABLE) -> None:
    """Show the version of this program, and of Python and PySpark."""
    found = Versions(
        version=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        pyspark=_installed("pyspark"),
        compiled=COMPILED,
    )
    names = {"version": "replicator"}
    rows = [[names.get(name, name), "not installed" if value is None else value] for name, value in found]
    show(found, output, table(("component", "version"), rows, empty=""))


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
