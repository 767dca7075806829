"""What packages have brought by entry points: connectors, transforms, strategies of assignment."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from replicator.errors import ConfigError

__all__ = ["ASSIGNMENTS", "CONNECTORS", "TRANSFORMS", "installed", "load", "version"]

#: Groups of entry points.
CONNECTORS: Final = "rocketmq_replicator.connectors"
TRANSFORMS: Final = "rocketmq_replicator.transforms"
ASSIGNMENTS: Final = "rocketmq_replicator.assignments"


def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, sorted, not loaded yet."""
    return {entry.name: entry for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)}


def version(entry: EntryPoint) -> str:
    """That of the package that brings it; empty where it does not say."""
    return entry.dist.version if entry.dist else ""


def load(group: str, name: str, *, field: str, ours: tuple[str, ...] = ()) -> Any:
    """The object called `name` in a group.

    Args:
        field: the setting that names it.
        ours: names that are known besides those of the group.

    Raises:
        ConfigError: none is installed, or it cannot be loaded; says what there is.
    """
    found = installed(group)
    if name not in found:
        there = ", ".join([*ours, *found])
        none = f"no {group.rpartition('.')[2]} (entry points {group}) are installed"
        raise ConfigError(f"{field} = {name!r} is not installed: " + (f"there are {there}" if there else none))
    try:
        return found[name].load()
    except Exception as error:
        raise ConfigError(
            f"{field} = {name!r} cannot be loaded ({type(error).__name__}: {error}): "
            "fix or remove the package that provides it"
        ) from error
