"""The `replicator` command; `python -m replicator` is the same."""

from __future__ import annotations

import gc


def main() -> None:
    """Runs the command line."""
    gc.disable()  # what imports make stays: looking for garbage in it takes a tenth to a fifth of their time
    from replicator import cli  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    cli.main()


if __name__ == "__main__":
    main()
