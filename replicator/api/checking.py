"""Checks of a configuration before a connector is created or changed over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replicator.connector.context import refuse_filter
from replicator.errors import ConfigError, StartupError
from replicator.plugins.registry import PluginConfig
from replicator.settings import RouteSettings
from replicator.worker.worker import Worker

__all__ = ["refuse_wrong"]


async def refuse_wrong(worker: Worker, name: str, config: Mapping[str, Any]) -> RouteSettings | PluginConfig:
    """The settings of `config`, if they are valid for a connector with this `name`.

    Raises:
        ConfigError: all mistakes, one a line; or a source broker does not accept its filter.
    """
    settings = worker.connectors.parse(name, config)
    if isinstance(settings, RouteSettings):
        try:
            await refuse_filter(settings, worker.context.source)
        except StartupError as error:
            raise ConfigError(error.message, hint=error.hint) from None
    return settings
