"""What `replicator version` prints."""

from __future__ import annotations

import json
import platform
from importlib import metadata

from typer.testing import CliRunner

from replicator import __version__
from replicator.cli import app


def test_what_is_installed() -> None:
    """As JSON for scripts, and in rows for people."""
    found = json.loads(CliRunner().invoke(app, ["version", "-o", "json"]).stdout)
    assert found["version"] == __version__
    assert found["python"] == platform.python_version()
    assert found["pyspark"] == metadata.version("pyspark")
    assert isinstance(found["compiled"], bool)
    drawn = CliRunner().invoke(app, ["version"]).stdout
    assert ["replicator", __version__] in [line.split() for line in drawn.splitlines()]
