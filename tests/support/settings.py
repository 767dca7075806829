"""Settings as commands load them: given as nested values, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.settings import load

__all__ = ["flags", "mistakes"]


def flags(**values: Any) -> dict[str, Any]:
    """The two clusters, with `source__x=…` as nested values."""
    made: dict[str, Any] = {"source": {"namesrv": "s:1"}, "target": {"namesrv": "t:1"}}
    for name, value in values.items():
        into, *rest = [made, *name.split("__")]
        for part in rest[:-1]:
            into = into.setdefault(part, {})
        into[rest[-1]] = value
    return made


def mistakes(given: dict[str, Any], file: Path | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(given, file=file)
    return str(caught.value).splitlines()
