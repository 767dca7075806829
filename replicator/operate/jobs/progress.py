"""The progress of a Spark job: bars on a terminal, and /metrics if a port is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from replicator.observe.jobs import JobNumbers, served

__all__ = ["JobProgress", "watched"]


_MESSAGES: Final = "messages"


class _Done(ProgressColumn):
    """How many of how many."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.completed:,.0f} of {task.total or 0:,.0f}", style="progress.download")


class _Rate(ProgressColumn):
    """The current rate of messages per second; of queues, which end many at a time, it would say nothing."""

    def render(self, task: Task) -> Text:
        if task.description != _MESSAGES:
            return Text()
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s")


class JobProgress:
    """Reports the progress of a job."""

    def __init__(self, drawn: Progress, numbers: JobNumbers, *, queues: int | None, messages: int | None) -> None:
        self._drawn = drawn
        self._numbers = numbers
        self._most = messages
        self._messages = None if messages is None else drawn.add_task(_MESSAGES, total=messages)
        self._queues = None if queues is None else drawn.add_task("queues", total=queues)

    def moved(self, messages: int) -> None:
        """Sets the total of messages that have arrived; those of other producers may be included."""
        shown = messages if self._most is None else min(messages, self._most)
        self._numbers.moved(shown)
        if self._messages is not None:
            self._drawn.update(self._messages, completed=shown)

    def ended(self, *, messages: int, failed: bool, findings: Mapping[str, int]) -> None:
        """Counts a queue that has ended, and its messages that were copied, compared or written by this run."""
        self._numbers.ended(failed=failed, findings=findings)
        if self._messages is None:
            self._numbers.moved(self._numbers.messages + messages)
        if self._queues is not None:
            self._drawn.advance(self._queues)


@contextmanager
def watched(
    command: str, *, port: int | None, queues: int | None = None, messages: int | None = None
) -> Iterator[JobProgress]:
    """The progress of a job with these numbers of queues and messages; None: it runs until it is stopped.

    Raises:
        StartupError: the port cannot be used.
    """
    numbers = JobNumbers(command, queues=queues, messages=messages)
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        _Done(),
        _Rate(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    drawn = Progress(*columns, console=console, disable=not console.is_terminal)
    with served(numbers, port), drawn:
        yield JobProgress(drawn, numbers, queues=queues, messages=messages)
