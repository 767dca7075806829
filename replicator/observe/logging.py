"""Structured logs: JSON where nobody looks at a terminal, one event per thing that happened."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

__all__ = ["configure", "get_logger"]

#: Names whose values never reach a log.
_SECRET: Final = ("secret", "password", "token", "signature")


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger bound to the module's name."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(module=name.removeprefix("replicator."))
    return logger


def configure(*, level: str = "info", terminal: bool | None = None) -> None:
    """Sets logging up for the process: to standard error.

    Args:
        terminal: text for people; JSON otherwise. None: whether standard error is a terminal.
    """
    if terminal is None:
        terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(pad_event_to=0) if terminal else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _redact,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _redact(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in event:
        if any(word in name.lower() for word in _SECRET):
            event[name] = "********"
    return event
