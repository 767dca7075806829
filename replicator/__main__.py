"""The `replicator` command; `python -m replicator` is the same."""

from __future__ import annotations

from replicator.lean_import import lean_import


def main() -> None:
    """Runs the command line."""
    lean_import("replicator.cli").main()


if __name__ == "__main__":
    main()
