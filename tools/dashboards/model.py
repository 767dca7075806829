"""The parts of a dashboard, without Grafana's details."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from replicator.observe.catalogue import PREFIX

__all__ = [
    "BY_CONNECTOR",
    "BY_TOPIC",
    "CONNECTOR",
    "RESOURCE",
    "TOPIC",
    "WORKER",
    "Board",
    "Event",
    "Panel",
    "Row",
    "own",
    "rate",
]

#: Selectors by the variables of a board, for metrics of a worker, a connector, a topic.
WORKER = '{source=~"$source",target=~"$target"}'
CONNECTOR = '{source=~"$source",target=~"$target",connector=~"$connector"}'
TOPIC = '{source=~"$source",target=~"$target",connector=~"$connector",topic=~"$topic"}'
#: Labels of sums over workers; the legend of metadata series.
BY_CONNECTOR = "source, target, connector"
BY_TOPIC = "source, target, connector, topic"
RESOURCE = "{{connector}} {{resource}}"


@dataclass(frozen=True, slots=True)
class Panel:
    """A question and its answer; `text` says what to do about it.

    `bad` is the value from which a figure is red, `warn` that from which it is yellow; on lines both are dashed lines. `empty` says
    why there may be nothing to show. `alerts`, without their prefix, and `board` are what the panel links to.
    """

    title: str
    text: str
    queries: Mapping[str, str]
    kind: Literal["stat", "lines", "stack", "heat", "table"] = "lines"
    unit: str = "short"
    width: int = 12
    bad: float | None = None
    warn: float | None = None
    low: bool = False
    words: Mapping[str, str] = field(default_factory=dict)
    empty: str = ""
    alerts: tuple[str, ...] = ()
    board: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """What is marked on the lines of a board when its expression gives something, by the label `alertname`, as Grafana does it."""

    title: str
    expression: str
    colour: str


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard; `variables` are labels of `replicator`'s metrics."""

    name: str
    title: str
    text: str
    variables: tuple[str, ...]
    rows: tuple[Row, ...]
    events: tuple[Event, ...] = ()

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row.panels]


def own(name: str, selector: str) -> str:
    """A metric of the replicator, by its name without the prefix."""
    return f"{PREFIX}{name}{selector}"


def rate(name: str, selector: str) -> str:
    """The rate of a counter per second."""
    return f"rate({own(name + '_total', selector)}[$__rate_interval])"
