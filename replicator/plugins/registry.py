"""The connector plugins that are installed here, found by their entry points, and configurations of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from replicator.errors import ConfigError
from replicator.plugins import installed
from replicator.plugins.interface import SinkConnector, SourceConnector
from replicator.plugins.limits import ConnectorLimits
from replicator.settings import explain

__all__ = ["CLASS", "Plugin", "PluginConfig", "configure", "kind", "load"]

#: The key of a configuration that names the plugin.
CLASS: Final = "connector.class"

Plugin = SourceConnector[Any] | SinkConnector[Any]


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """A configuration of the plugin called `name`; `tasks` are the names of its tasks, each with its topics."""

    name: str
    config: BaseModel
    plugin: Plugin = field(compare=False)
    tasks: Mapping[str, Sequence[str]] = field(compare=False)

    @property
    def type(self) -> str:
        return kind(self.plugin)

    def dump(self) -> dict[str, Any]:
        """As JSON, with the plugin's name."""
        return {CLASS: self.name, **self.config.model_dump(mode="json", by_alias=True)}


def kind(plugin: Plugin) -> str:
    """`SOURCE` or `SINK`."""
    return "SOURCE" if isinstance(plugin, SourceConnector) else "SINK"


def load(name: str) -> Plugin:
    """The plugin called `name`.

    Raises:
        ConfigError: none is installed, or it cannot be loaded.
    """
    made = installed.load(installed.CONNECTORS, name, field=CLASS, ours=("routing",))
    try:
        plugin = made()
    except Exception as error:
        raise ConfigError(f"{CLASS} = {name!r} cannot be created ({type(error).__name__}: {error})") from error
    if not isinstance(plugin, SourceConnector | SinkConnector):
        raise ConfigError(f"{CLASS} = {name!r} is not a connector: it is neither SourceConnector nor SinkConnector")
    return plugin


#: The name of a task is a part of its records' keys, which are JSON.
_TASK: Final = re.compile(r"[^/\s\x00-\x1f\x7f\ud800-\udfff]{1,200}")


def configure(name: str, values: Mapping[str, Any], limits: ConnectorLimits) -> PluginConfig:
    """The configuration that `values` say, without the plugin's name.

    Args:
        limits: what the worker's own settings allow; the context of the validation, for the plugin's model.

    Raises:
        ConfigError: the plugin cannot be had, or all mistakes, one a line.
    """
    plugin = load(name)
    try:
        config = plugin.config.model_validate(dict(values), context=limits)
    except ValidationError as error:
        raise ConfigError("\n".join(explain(error, plugin.config))) from None
    try:
        tasks = {task: tuple(topics) for task, topics in plugin.tasks(config).items()}
    except Exception as error:
        raise ConfigError(f"{CLASS} = {name!r} cannot name its tasks: {type(error).__name__}: {error}") from error
    names: Iterable[object] = tasks  # a plugin is not ours: its annotations may not hold
    for task in names:
        if not isinstance(task, str) or not _TASK.fullmatch(task):
            raise ConfigError(
                f"{CLASS} = {name!r} has a task {task!r}: names have up to 200 characters, no spaces and no slashes"
            )
    return PluginConfig(name, config, plugin, tasks)
