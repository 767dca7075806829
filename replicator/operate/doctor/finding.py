"""What the doctor finds: one line each."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from replicator.command_output import Report

__all__ = ["Examination", "Finding", "Level", "bad", "good", "odd", "unchecked"]


class Level(StrEnum):
    """How bad it is: an `error` stops the route, or loses what it should keep; a `warning` may. `not checked`:
    nobody knows.
    """

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    NOT_CHECKED = "not checked"


class Finding(Report):
    """The outcome of one check."""

    level: Level
    check: Annotated[str, Field(description="what was looked at: name server, broker, topic, …")]
    subject: Annotated[str, Field(description="which one")]
    message: str
    advice: Annotated[str, Field(description="the way out; empty where none is needed")] = ""


class Examination(Report):
    """All that was found."""

    findings: list[Finding]
    warnings: int
    errors: int
    not_checked: int

    @classmethod
    def of(cls, findings: list[Finding]) -> Examination:
        """The report of `findings`."""
        levels = [finding.level for finding in findings]
        return cls(
            findings=findings,
            warnings=levels.count(Level.WARNING),
            errors=levels.count(Level.ERROR),
            not_checked=levels.count(Level.NOT_CHECKED),
        )


def good(check: str, subject: str, message: str) -> Finding:
    """A check that found nothing wrong."""
    return Finding(level=Level.OK, check=check, subject=subject, message=message)


def odd(check: str, subject: str, message: str, advice: str) -> Finding:
    """Something to know of, or to change."""
    return Finding(level=Level.WARNING, check=check, subject=subject, message=message, advice=advice)


def bad(check: str, subject: str, message: str, advice: str) -> Finding:
    """Something that has to be changed."""
    return Finding(level=Level.ERROR, check=check, subject=subject, message=message, advice=advice)


def unchecked(check: str, subject: str, message: str, advice: str = "") -> Finding:
    """Something that could not be looked at; `message` says what, and why."""
    return Finding(level=Level.NOT_CHECKED, check=check, subject=subject, message=message, advice=advice)
