"""Directories."""

from __future__ import annotations

from pathlib import Path


def made(directory: Path) -> Path:
    """The directory, which exists then."""
    directory.mkdir(parents=True, exist_ok=True)
    return directory
