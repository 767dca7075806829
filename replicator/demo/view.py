"""The demo's output: a live view on a terminal, otherwise a plain line every second."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any, Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from replicator.demo.traffic import Traffic
from replicator.demo.verdict import Verdict
from replicator.demo.worker import TopicFigures, Worker

__all__ = ["View"]

_SHOWN: Final = 8
#: Lines of a live view besides the orders.
_OTHER_LINES: Final = 16
_STATE_STYLES: Final = {"RUNNING": "green", "FAILED": "bold red"}


class View:
    """`doing` describes the current step; `show` redraws everything."""

    def __init__(self, console: Console, *, source: str, target: str, version: str) -> None:
        self._console = console
        self._source = source
        self._target = target
        self._version = version
        self._begin = time.monotonic()
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self.doing = ""
        self.interval = 0.25 if self._live else 1.0

    def __enter__(self) -> View:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show_step(self, doing: str) -> None:
        """Sets the current step."""
        self.doing = doing
        if not self._live:
            self._console.print(doing, highlight=False, markup=False)

    def show(self, worker: Worker, traffic: Traffic) -> None:
        """Draws the current figures."""
        if self._live:
            self._live.update(self._picture(worker, traffic), refresh=True)
            return
        for topic in worker.topics:
            self._console.print(self._line(topic, traffic), highlight=False, markup=False, soft_wrap=True)

    def _line(self, topic: TopicFigures, traffic: Traffic) -> str:
        latest = f", latest {traffic.latest[-1]['keys']}" if traffic.latest else ""
        return (
            f"{time.strftime('%H:%M:%S')} {topic.topic} {topic.state}: {topic.copied:,} copied, "
            f"{topic.rate:.0f} msg/s, lag {topic.lag_messages:,} messages, {topic.lag_seconds:.1f} s; "
            f"{traffic.seen:,} seen by the consumer{latest}"
        )

    def _picture(self, worker: Worker, traffic: Traffic) -> RenderableType:
        seconds = int(time.monotonic() - self._begin)
        title = Text.assemble(
            ("east ", "bold"), (self._source, "cyan"), (" → ", "bold"), ("west ", "bold"), (self._target, "cyan")
        )
        footer = Table.grid(padding=(0, 2))
        footer.add_row("page", Text.assemble((worker.page, "cyan"), ", open it while the demo runs"))
        footer.add_row("metrics", Text(worker.metrics, "cyan"))
        footer.add_row("name servers", title)
        parts: list[RenderableType] = [
            _topics(worker.topics),
            _orders(list(traffic.latest)[-self._room() :], traffic),
            Padding(footer, (0, 1)),
        ]
        return Panel(
            Group(*parts),
            title=f"[bold]replicator demo[/] · RocketMQ {self._version} · {seconds // 60}:{seconds % 60:02d}",
            subtitle=Text(self.doing),
            box=box.ROUNDED,
            border_style="blue",
        )

    def _room(self) -> int:
        return max(1, min(_SHOWN, self._console.height - _OTHER_LINES))

    def summary(self, verdict: Verdict, traffic: Traffic) -> None:
        """Prints the final summary."""
        judged = [
            ("lost", verdict.lost),
            ("duplicated", verdict.duplicated),
            ("out of order", verdict.out_of_order),
            ("changed", verdict.changed),
        ]
        counts = Text(f"produced {verdict.sources}, copied {verdict.copied}")
        for name, count in judged:
            counts.append(", ").append(f"{name} {count}", style="red" if count else "green")
        lines = [counts, Text(f"{traffic.seen} seen by the consumer on west")]
        lines += [Text(note, style="yellow") for note in _notes(verdict, traffic)]
        self._console.print(Text("Summary, from reading the topic whole on both clusters:", style="bold"))
        for line in lines:
            self._console.print(Text("  ").append_text(line), soft_wrap=True)


def _notes(verdict: Verdict, traffic: Traffic) -> Iterable[str]:
    if traffic.produced != verdict.sources:
        yield f"{traffic.produced} orders were acknowledged to the producer, {verdict.sources} are there"
    if traffic.refused:
        yield f"{traffic.refused} orders were refused by the source cluster"
    if verdict.foreign:
        yield f"{verdict.foreign} messages on the target are not copies"


def _table(**more: Any) -> Table:
    # Fits into 80 columns.
    return Table(box=box.SIMPLE_HEAD, expand=True, header_style="bold", padding=(0, 1, 0, 0), **more)


def _topics(topics: Iterable[TopicFigures]) -> Table:
    table = _table()
    table.add_column("topic")
    table.add_column("state")
    for name in ("copied", "rate msg/s", "lag messages", "lag seconds"):
        table.add_column(name, justify="right")
    for topic in topics:
        state = Text(topic.state, _STATE_STYLES.get(topic.state, "yellow"))
        if topic.reason:
            state.append(f" ({topic.reason})", "dim")
        table.add_row(
            topic.topic,
            state,
            f"{topic.copied:,}",
            f"{topic.rate:,.0f}",
            f"{topic.lag_messages:,}",
            f"{topic.lag_seconds:.1f}",
        )
    return table


def _orders(latest: Iterable[dict[str, Any]], traffic: Traffic) -> Table:
    title = f"Orders as the consumer on west gets them: {traffic.seen:,} of {traffic.produced:,} produced"
    table = _table(title=title, title_justify="left")
    # Fixed widths, so that the columns do not move with every order.
    table.add_column("queue", justify="right", width=5)
    for name, width in (("key", 12), ("tag", 8), ("shop", 8)):
        table.add_column(name, no_wrap=True, width=width)
    table.add_column("item", no_wrap=True, ratio=1)
    table.add_column("pieces", justify="right", width=6)
    table.add_column("amount", justify="right", width=8)
    for received in latest:
        body = json.loads(received["body"])
        shop, amount = received["properties"]["shop"], f"{body['amount']:,.2f}"
        place = str(received["queue"])
        table.add_row(place, received["keys"], received["tags"], shop, body["item"], str(body["quantity"]), amount)
    return table
