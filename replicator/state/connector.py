"""One connector: what it is configured to do, and whether it is to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from replicator.plugins.registry import CLASS, PluginConfig
from replicator.settings import RouteSettings

__all__ = ["ROUTING", "Connector", "State", "differences", "dump"]

#: The plugin that this program is about; its settings are the command line's too.
ROUTING: Final = "routing"


class State(StrEnum):
    """What a connector is to do. PAUSED keeps its tasks where they are, STOPPED gives them back."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector; `origin` is `command line` or `rest`.

    `epoch` counts requested restarts of the whole connector, `task_epochs` those of single tasks since then.
    `failed_over` is when the source was declared dead last (ms since the epoch); 0: never. `made` differs from that
    of an earlier connector of the name, whose progress is not this one's.
    """

    name: str
    settings: RouteSettings | PluginConfig
    state: State
    origin: str
    epoch: int
    task_epochs: Mapping[str, int] = field(default_factory=dict)
    failed_over: int = 0
    made: int = 0

    @property
    def type(self) -> str:
        """`ROUTE`, `SOURCE` or `SINK`."""
        return self.settings.type if isinstance(self.settings, PluginConfig) else "ROUTE"

    @property
    def config(self) -> dict[str, Any]:
        """Its configuration as JSON; there are no secrets in it."""
        return dump(self.settings)


def dump(settings: RouteSettings | PluginConfig) -> dict[str, Any]:
    """A configuration as JSON."""
    if isinstance(settings, PluginConfig):
        return settings.dump()
    return {CLASS: ROUTING, **settings.model_dump(mode="json")}


def differences(before: Connector, after: Connector) -> list[str]:
    """The options in which two configurations differ."""
    old, new = before.config, after.config
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
