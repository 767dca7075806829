"""What a worker logs while a command waits for it, on standard error."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from replicator.errors import ReplicatorError
from replicator.observe.printable import one_line
from replicator.operate.workers.rest import Rest

__all__ = ["step_of", "steps_shown"]

_DATA = b"data: "


@contextlib.contextmanager
def steps_shown(rest: Rest, connector: str) -> Iterator[None]:
    """Shows meanwhile what the worker logs of `connector`, a line each.

    It is there for people who wait. Where the worker has no feed to give, the command does the same without it.
    """
    try:
        feed = rest.follow("/events?after=-1")
    except ReplicatorError:
        yield
        return
    with feed:
        reader = threading.Thread(target=_show, args=(feed.lines, connector), daemon=True)
        reader.start()
        try:
            yield
        finally:
            feed.end()
            reader.join()


def _show(lines: Iterable[bytes], connector: str) -> None:
    for line in lines:
        if line.startswith(_DATA) and (step := step_of(json.loads(line[len(_DATA) :]), connector)):
            print(step, file=sys.stderr, flush=True)


def step_of(event: dict[str, Any], connector: str) -> str:
    """The line that shows `event`; empty where it is not of `connector`."""
    details = {name: value for name, value in event["details"].items() if value not in ("", "[]")}
    if details.pop("connector", None) != connector:
        return ""
    told = "  ".join(f"{name}={value}" for name, value in details.items())
    return one_line(f"{event['at'][11:19]}  {event['event']}" + (f"  {told}" if told else ""))
