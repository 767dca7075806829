"""Tables of what a worker answers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from replicator.client.system_topics import SCHEDULE_TOPIC, TIMER_TOPIC
from replicator.command_output import separator
from replicator.observe.duration import duration
from replicator.observe.moment import moment
from replicator.observe.printable import one_line

__all__ = ["away_lines", "cell", "cluster_table", "lag_table", "reasons", "table", "topic_name"]

#: What people call the topics in which brokers keep what is not due yet.
_WAITING_IN: Final = {SCHEDULE_TOPIC: "delayed messages", TIMER_TOPIC: "timer messages"}
#: Columns that no table needs.
_ENDLESS: Final = 100_000
#: Topics that are named with a reason; the others are counted.
_NAMED: Final = 3

_STYLES: Final = {
    "running": "green",
    "online": "green",
    "failed": "bold red",
    "waiting": "yellow",
    "stalled": "red",
}

#: Numbers of a topic, by their heads.
_NUMBERS: Final = {
    "lag": "lag_messages",
    "lag s": "lag_seconds",
    "copied": "copied",
    "unverified s": "verified_age_seconds",
    "differ": "audit_differences",
}


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, empty: str) -> RenderableType:
    """A table, or `empty` if it has no rows."""
    if not rows:
        return Text(empty, style="dim")
    return _Fitting(columns, [[cell(value) for value in row] for row in rows])


class _Fitting:
    """Where the terminal is narrow, heads are broken between words first, then values where they must; never a word
    of a head.
    """

    def __init__(self, heads: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
        self._heads, self._rows = heads, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        drawn = self._drawn(narrow=False)
        wanted = Measurement.get(console, options.update_width(_ENDLESS), drawn).maximum
        yield drawn if wanted <= options.max_width else self._drawn(narrow=True)

    def _drawn(self, *, narrow: bool) -> Table:
        drawn = Table(box=None, pad_edge=False)
        for index, head in enumerate(self._heads):
            word = max(map(len, head.split()), default=0)
            widest = max(word, *(row[index].cell_len for row in self._rows))
            drawn.add_column(head, overflow="fold", min_width=word, max_width=widest if narrow else None)
        for row in self._rows:
            drawn.add_row(*row)
        return drawn


def cell(value: Any, comma: str | None = None) -> Text:
    """A value as tables show it; `comma` stands between the thousands of a number, if not as the output has it.

    A number that is typed again elsewhere, as an offset is, is given as text.
    """
    comma = separator() if comma is None else comma
    if isinstance(value, bool):
        value = "yes" if value else ""
    if isinstance(value, float):
        value = f"{value:{comma}.1f}"
    text = f"{value:{comma}}" if isinstance(value, int) else one_line("" if value is None else str(value))
    return Text(text, style=_STYLES.get(text.lower(), ""))


def cluster_table(cluster: Mapping[str, Any], *, away: bool = False) -> RenderableType:
    """The workers of a group.

    Args:
        away: whether the source cannot be reached, so that none has anything to copy.
    """
    names = ("worker_id", "address", "version", "state", "tasks", "leader", "takes_tasks", "waiting_for")
    return table(
        ("worker", "REST", "version", "state", "tasks", "leader", "takes tasks", "waits for"),
        [[worker[name] for name in names] for worker in _idle(cluster["workers"], away=away)],
        empty="no worker",
    )


def _idle(workers: Sequence[Mapping[str, Any]], *, away: bool) -> Sequence[Mapping[str, Any]]:
    return [{**worker, "takes_tasks": "source away"} for worker in workers] if away else workers


def away_lines(connectors: Mapping[str, Any]) -> list[str]:
    """Why the source cannot be reached, so that no lag is known; older workers do not say it."""
    found = dict[str, None]()
    for held in connectors.values():
        status = held["status"]
        if away := status.get("source_away"):
            at = status.get("source_seen_at")
            seen = (
                f"; it was last reached at {moment(at)}, {duration(max(0.0, time.time() - at))} ago" if at else ""
            )
            found[f"the source cannot be reached, so the lag is not known: {away}{seen}"] = None
    return list(found)


def topic_name(topic: str, *, quiet: bool) -> str:
    """A topic for people; empty where nobody need know of it.

    Args:
        quiet: whether nothing waits in it, and all is well with it.
    """
    return "" if quiet and topic in _WAITING_IN else _WAITING_IN.get(topic, topic)


def reasons(found: Sequence[tuple[str, str]]) -> list[Text]:
    """Below a table, since they are long: each reason once, with the names that it is of."""
    named: dict[str, list[str]] = {}
    for name, reason in found:
        if reason:
            named.setdefault(reason, []).append(name)
    lines = []
    for reason, names in named.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        lines.append(Text(one_line(f"{', '.join(names[:_NAMED])}{more}: {reason}")))
    return lines


def lag_table(connectors: Mapping[str, Any]) -> RenderableType:
    """The topics of all connectors, and why they are not as they should be."""
    rows, why = list[list[Any]](), list[tuple[str, str]]()
    for name, found in connectors.items():
        for topic in found["status"]["topics"]:
            quiet = topic["state"] == "RUNNING" and not (
                topic["stalled"] or topic["lag_messages"] or topic["audit_differences"] or topic["reason"]
            )
            if shown := topic_name(topic["topic"], quiet=quiet):
                state = "stalled" if topic["stalled"] else topic["state"]
                rows.append([name, shown, state, *(topic[number] for number in _NUMBERS.values())])
                why.append((shown, topic["reason"]))
    columns = ("connector", "topic", "state", *_NUMBERS)
    if away := [Text(one_line(line), style="red") for line in away_lines(connectors)]:
        last = [table(columns, rows, empty=""), Text("the numbers are those that were published last")]
        return Group(*(last if rows else ()), *reasons(why), *away)
    return Group(table(columns, rows, empty="no queue is copied by a worker now"), *reasons(why))
