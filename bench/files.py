"""Directories."""

from __future__ import annotations

from pathlib import Path


def made(directory: Path) -> Path:
    """Creates the directory if needed, and returns it."""
    directory.mkdir(parents=True, exist_ok=True)
    return directory
