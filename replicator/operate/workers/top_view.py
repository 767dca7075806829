"""What `replicator top` draws: the worst of a group on one screen."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from replicator.observe.duration import duration
from replicator.observe.printable import one_line
from replicator.operate.show import away_lines, cell, cluster_table

__all__ = ["Snapshot", "TopView"]

#: Seconds over which rates are taken. Workers publish their progress every two seconds.
_WINDOW: Final = 10.0
#: Lines above the topics, besides the workers.
_HEAD: Final = 7
_SUMS: Final = {
    "copied": "copied",
    "lag": "lag_messages",
    "gaps": "gap_messages",
    "lost at the target": "target_lost",
    "skipped": "skipped",
    "duplicates": "duplicates",
    "foreign": "foreign",
    "different": "audit_differences",
}


@dataclass(frozen=True)
class Snapshot:
    """What REST answered at `at`, in seconds of a clock that only goes forward."""

    at: float
    cluster: Mapping[str, Any]
    connectors: Mapping[str, Any]

    @cached_property
    def topics(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """By connector and name."""
        return {
            (name, topic["topic"]): topic
            for name, held in self.connectors.items()
            for topic in held["status"]["topics"]
        }

    def runs(self, connector: str) -> bool:
        """Whether a connector is there, and neither paused nor stopped."""
        held = self.connectors.get(connector)
        return held is not None and held["status"]["connector"]["state"] == "RUNNING"


class TopView:
    """Draws snapshots of a group; rates are those of the last ten seconds, or since the one before."""

    def __init__(self, comma: str = ",") -> None:
        self._comma = comma  # between the thousands of numbers
        self._snapshots: deque[Snapshot] = deque()
        self._clock = ""

    def draw(self, snapshot: Snapshot, *, clock: str, height: int | None) -> RenderableType:
        """The group at `snapshot`.

        Args:
            clock: the time of day.
            height: lines of the screen; topics that have no room are counted instead. None: there is no screen,
                and everything is there, uncut.
        """
        self.see(snapshot)
        self._clock = clock
        return self._draw(snapshot, height)

    def see(self, snapshot: Snapshot) -> None:
        """Takes it for the rates of those that come after it."""
        self._snapshots.append(snapshot)
        while len(self._snapshots) > 2 and self._snapshots[-1].at - self._snapshots[0].at > _WINDOW:
            self._snapshots.popleft()

    def draw_again(self, reason: str, *, clock: str, height: int) -> RenderableType:
        """The last snapshot once more, under `reason`: why there is no newer one at `clock`."""
        lines = [_line(f"{clock} {line}", "red") for line in reason.splitlines()]
        return Group(*lines, self._draw(self._snapshots[-1], height - len(lines)))

    def _draw(self, snapshot: Snapshot, height: int | None) -> RenderableType:
        topics, several = snapshot.topics, len(snapshot.connectors) > 1
        worst = sorted(topics, key=lambda name: (-topics[name]["severity"], -topics[name]["lag_messages"], name))
        if height is None:
            named = Column("topic", overflow="fold")
            table = self._topics(worst, topics, named, several=several)
            workers = cluster_table(snapshot.cluster, away=bool(away_lines(snapshot.connectors)))
            return Group(*self._head(snapshot, topics), workers, Text(), table)
        room = max(1, height - _HEAD - len(snapshot.cluster["workers"]))
        shown = worst if len(worst) <= room else worst[: room - 1]
        named = Column("topic", no_wrap=True, overflow="ellipsis", ratio=1)
        parts: list[RenderableType] = [_line(line.plain, str(line.style)) for line in self._head(snapshot, topics)]
        parts += [_workers(snapshot.cluster), Text(), self._topics(shown, topics, named, several=several)]
        if len(shown) < len(worst):
            parts.append(Text(f"… and {len(worst) - len(shown)} topics that are no worse", style="dim"))
        return Group(*parts)

    def _head(self, snapshot: Snapshot, topics: Mapping[Any, Mapping[str, Any]]) -> list[Text]:
        cluster, comma = snapshot.cluster, self._comma
        states = ", ".join(
            f"{name} {held['status']['connector']['state']}" for name, held in snapshot.connectors.items()
        )
        title = f"{cluster['source']} to {cluster['target']} · {states or 'no connector'} · {self._clock}"
        sums = {word: sum(topic[name] for topic in topics.values()) for word, name in _SUMS.items()}
        copied, lag = sums.pop("copied"), sums.pop("lag")
        rate, eta = self._rate(topics, "copied"), self._eta(topics)
        seconds = max((topic["lag_seconds"] for topic in topics.values()), default=0.0)
        line = f"copied {copied:{comma}}" + (f" · {rate:{comma}.0f} msg/s" if rate is not None else "")
        counted = [f"{word} {count:{comma}}" for word, count in sums.items() if count]
        if away := away_lines(snapshot.connectors):
            found = one_line(" · ".join([*away, *counted]))
            return [
                Text(one_line(title)),
                Text(f"{line} · lag not known" if topics else "lag not known"),
                Text(found, "red"),
                Text(),
            ]
        line += f" · lag {lag:{comma}}" + (f", {seconds:{comma}.1f} s" if lag else "")
        line += f" · ETA {eta}" if eta else ""
        style, found = ("yellow", " · ".join(counted)) if counted else ("dim", "no gaps, losses or duplicates")
        return [Text(one_line(title)), Text(line), Text(found, style), Text()]

    def _topics(
        self,
        shown: list[tuple[str, str]],
        topics: Mapping[tuple[str, str], Mapping[str, Any]],
        name: Column,
        *,
        several: bool,
    ) -> RenderableType:
        if not shown:
            return Text("no queue is copied by a worker now", style="dim")
        heads = ("lag", "lag s", "msg/s", "ETA", "gaps", "lost")
        numbers = (Column(head, justify="right", no_wrap=True) for head in heads)
        columns = (name, Column("state", no_wrap=True), *numbers)
        drawn = Table(*columns, box=None, pad_edge=False, expand=bool(name.ratio))
        for key in shown:
            topic = topics[key]
            rate = self._rate({key: topic}, "copied")
            values = [
                "/".join(key) if several else key[1],
                "stalled" if topic["stalled"] else topic["state"],
                topic["lag_messages"],
                topic["lag_seconds"],
                "-" if rate is None else round(rate),
                self._eta({key: topic}),
                topic["gap_messages"],  # gone for good, while what the target has lost is copied again
                topic["target_lost"],
            ]
            drawn.add_row(*(cell(value, self._comma) for value in values))
        return drawn

    def _rate(self, topics: Mapping[Any, Mapping[str, Any]], name: str) -> float | None:
        """By how much `name` has grown in a second, of those topics that are not new; None if all are."""
        rates = [self._rate_of(connector, topics, name) for connector in {connector for connector, _ in topics}]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None

    def _rate_of(self, connector: str, topics: Mapping[Any, Mapping[str, Any]], name: str) -> float | None:
        """The same of one connector, since it runs: before, it had another rate, and paused it has none."""
        last = first = self._snapshots[-1]
        if not last.runs(connector):
            return 0.0
        for each in reversed(self._snapshots):
            if not each.runs(connector):
                break
            first = each
        elapsed, before = last.at - first.at, first.topics
        known = [key for key in topics if key[0] == connector and key in before]
        if elapsed <= 0 or not known:
            return None
        grown: int = sum(topics[key][name] - before[key][name] for key in known)
        return grown / elapsed

    def _eta(self, topics: Mapping[Any, Mapping[str, Any]]) -> str:
        """When the lag will be gone if it goes on shrinking like this."""
        lag = sum(topic["lag_messages"] for topic in topics.values())
        growth = self._rate(topics, "lag_messages")
        if not lag:
            return ""
        return "-" if growth is None or growth >= 0 else duration(lag / -growth)


def _workers(cluster: Mapping[str, Any]) -> RenderableType:
    """The workers, each in one line of a screen, its id whole; what is odd about one stands behind it."""
    shares = {"worker": None, "REST": 4, "state": None, "tasks": None, "notes": 3}  # of what is left of a line
    columns = [Column(head, no_wrap=True, overflow="ellipsis", ratio=share) for head, share in shares.items()]
    drawn = Table(*columns, box=None, pad_edge=False, expand=True)
    for worker in cluster["workers"]:
        noted = {
            "leader": worker["leader"],
            "takes no tasks": not worker["takes_tasks"] and not worker["waiting_for"],
            f"waits for {worker['waiting_for']}": worker["waiting_for"],
        }
        values = (worker[name] for name in ("worker_id", "address", "state", "tasks"))
        drawn.add_row(*map(cell, values), cell(", ".join(note for note, holds in noted.items() if holds)))
    return drawn


def _line(text: str, style: str = "") -> Text:
    return Text(one_line(text), style=style, no_wrap=True, overflow="ellipsis")
