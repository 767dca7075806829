"""How the sandbox's commands run: what they say meanwhile, and how they end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from replicator.errors import ReplicatorError
from replicator.exit_codes import ExitCode

__all__ = ["progress", "run"]


def run(command: Callable[[], Coroutine[None, None, int]], *, interrupted: int = 128 + signal.SIGINT) -> None:
    """Runs `command`, and ends with its exit code; a mistake is reported in one line.

    Args:
        interrupted: the exit code after Ctrl-C.

    Raises:
        Exit: always.
    """
    try:
        code = asyncio.run(command())
    except ReplicatorError as error:
        Console(stderr=True, soft_wrap=True).print(str(error), style="red", markup=False, highlight=False)
        code = error.exit_code
    except KeyboardInterrupt:
        code = interrupted
    except OSError as error:  # a full disk, a directory without permission
        Console(stderr=True, soft_wrap=True).print(str(error), style="red", markup=False, highlight=False)
        code = ExitCode.UNUSABLE
    raise typer.Exit(code)


@contextmanager
def progress(what: str, *, steps: bool = False) -> Iterator[Callable[[str], None]]:
    """Says on standard error what is being done; in a terminal it can be replaced, elsewhere it is one line.

    Args:
        steps: each thing that replaces it is a line there, with the time since the first.
    """
    console, began = Console(stderr=True), time.monotonic()
    if not console.is_terminal:

        def line(step: str) -> None:
            if steps:
                print(f"{time.monotonic() - began:5.1f} s  {step}", file=sys.stderr, flush=True)

        print(what, file=sys.stderr, flush=True)
        yield line
        return
    with console.status(what) as status:
        yield status.update
