"""Structured logs: JSON where nobody looks at a terminal, one event per thing that happened, repeats counted.

The minimum severity to log is the process's own and can be changed while it runs.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, Final, TextIO, cast, get_args

from replicator.lean_import import not_installed
from replicator.observe.level import Level
from replicator.observe.log_rate_limiter import LogRateLimiter
from replicator.observe.printable import printable
from replicator.observe.recent_events import recent_events

with not_installed("rich"):  # it would take two thirds of the time, for tracebacks in colours
    import structlog

__all__ = ["PROCESS", "configure", "get_level", "get_logger", "log_repeats", "set_level"]

_SEVERITY: Final = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}

#: The environment variable that has the number of a worker process among several, whose logs are one stream.
PROCESS: Final = "ROCKETMQ_REPLICATOR_PROCESS"

#: Names whose values never reach a log.
_SECRET: Final = ("secret", "password", "token", "signature")

#: Characters of a reason; what brokers and libraries say can be pages long.
_REASON: Final = 500


@dataclass
class _Lost:
    """Lines that could not be written, why the last of them could not, and whether others can again."""

    count: int = 0
    reason: str = ""
    over: bool = True


_repeats = LogRateLimiter()
_lost = _Lost()
_least: Level = "info"


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger bound to the module's name; it logs at `info` until somebody configures it."""
    if not structlog.is_configured():
        configure()
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(module=name.removeprefix("replicator."))
    return logger


def configure(*, level: Level = "info", terminal: bool | None = None) -> None:
    """Sets logging up for the process: to standard error.

    Args:
        level: the minimum severity to log.
        terminal: text for people; JSON otherwise. None: whether standard error is a terminal.
    """
    if terminal is None:
        terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(pad_event_to=0) if terminal else structlog.processors.JSONRenderer()
    )
    set_level(level)
    if (number := os.environ.get(PROCESS, "")).isdecimal():
        structlog.contextvars.bind_contextvars(process=int(number))
    structlog.configure(
        processors=[
            _severe_enough,
            structlog.contextvars.merge_contextvars,  # first: who asked for it decides whether it is a repeat
            _repeats,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _redact,
            _shorten,
            recent_events,
            *([_printable] if terminal else []),  # JSON has what is not printable as escapes
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _Lines(sys.stderr))),
        cache_logger_on_first_use=False,
    )
    # Libraries log by the standard library: their lines are not ours, and still come in our form.
    root = logging.getLogger()
    if not any(isinstance(handler, _Bridge) for handler in root.handlers):
        root.addHandler(_Bridge())
    logging.captureWarnings(capture=True)


class _Lines:
    """Where lines go. A full disk under them, or a reader that is gone, costs lines and not what logs them.

    A file is written past its buffer: what it could not take would stay there, and make the exit code another one.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._torn = b""
        try:
            self._descriptor: int | None = file.fileno()
        except OSError:  # it is in memory
            self._descriptor = None

    def write(self, line: str) -> None:
        """Writes one line, with its end."""
        try:
            if self._descriptor is None:
                self._file.write(line)
            else:
                self._write(self._descriptor, line.encode(errors="backslashreplace"))
        except OSError as error:
            _lost.count, _lost.reason, _lost.over = _lost.count + 1, str(error), False
        else:
            _lost.over = True

    def _write(self, descriptor: int, line: bytes) -> None:
        left = self._torn + line
        while left:
            written = os.write(descriptor, left)
            left, self._torn = left[written:], b"\n"
        self._torn = b""

    def flush(self) -> None:
        """Nothing is held back."""


class _Bridge(logging.Handler):
    """Takes what libraries log to our own log."""

    def emit(self, record: logging.LogRecord) -> None:
        logger: structlog.stdlib.BoundLogger = structlog.get_logger(module=record.name)
        method = record.levelname.lower() if record.levelname.lower() in get_args(Level) else "error"
        try:
            getattr(logger, method)(record.getMessage(), exc_info=record.exc_info or None)
        except Exception:  # noqa: BLE001 - handlers must not raise; this is how they say so
            self.handleError(record)


def get_level() -> Level:
    """The minimum severity to log now."""
    return _least


def set_level(level: Level) -> None:
    """From now on what is less severe than `level` is not logged."""
    global _least
    _least = level


def log_repeats(*, now: bool = False) -> None:
    """Logs how many events were left out as repeats of what is over by now, or of all, and what was not written."""
    if _lost.count and _lost.over:
        count, _lost.over = _lost.count, False
        get_logger(__name__).error("lines could not be logged", count=count, reason=_lost.reason)
        if _lost.over:  # it was written, and neither lost itself nor left out as a repeat
            _lost.count -= count
    for left in _repeats.take(now=now):
        logger: structlog.stdlib.BoundLogger = structlog.get_logger(module=left.module)
        getattr(logger, left.level)(f"{left.event} (more)", times=left.times, seconds=round(left.seconds, 1))


atexit.register(log_repeats, now=True)


def _severe_enough(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if _SEVERITY.get(method, logging.ERROR) < _SEVERITY[_least]:
        raise structlog.DropEvent
    return event


def _shorten(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    reason = event.get("reason")
    if isinstance(reason, str) and len(reason) > _REASON:
        event["reason"] = f"{reason[:_REASON]}… ({len(reason) - _REASON} more characters)"
    return event


def _redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in event:
        if any(word in name.lower() for word in _SECRET):
            event[name] = "********"
    return event


def _printable(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: printable(value) if isinstance(value, str) else value for name, value in event.items()}
