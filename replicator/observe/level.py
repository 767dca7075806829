"""Severities of log events. Settings name them, and import no logging."""

from __future__ import annotations

from typing import Literal

__all__ = ["Level"]

#: The least severe first.
Level = Literal["debug", "info", "warning", "error"]
