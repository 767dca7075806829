"""Writes docs/QUEUE_STATES.md from the table of a queue's steps: `python -m tools.states_page`."""

from __future__ import annotations

import ast
import inspect
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from replicator.routing import queue_steps
from replicator.routing.queue_steps import FINAL, TRANSITIONS, Event, Step

PAGE = Path(__file__).parent.parent / "docs" / "QUEUE_STATES.md"

_HEAD = """# What the copy of a queue does

`python -m tools.states_page` writes this page from the table in `replicator/routing/queue_steps.py`.

Each source queue is copied by a pair of tasks that is always in one of these steps. What follows an event is decided
by the table alone. Copying is entered only through both checks: nothing is sent to a target, and nothing of a
source is believed, that was not looked at since the connection to it was made.
"""


def documented(kind: type[StrEnum]) -> dict[str, str]:
    """The docstring under each member."""
    tree = ast.parse(inspect.getsource(queue_steps))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    found: dict[str, str] = {}
    for one, other in pairwise(body):
        if isinstance(one, ast.Assign) and isinstance(other, ast.Expr) and isinstance(other.value, ast.Constant):
            assert isinstance(one.value, ast.Constant)
            found[str(one.value.value)] = " ".join(str(other.value.value).split())
    return found


def page() -> str:
    """The whole page."""
    lines = [_HEAD, "```mermaid", "stateDiagram-v2", f"    [*] --> {Step.CHECK_TARGET}"]
    arrows: dict[tuple[Step, Step], list[str]] = {}
    for (step, event), transition in TRANSITIONS.items():
        arrows.setdefault((step, transition.to), []).append(event.value)
    lines += [f"    {step} --> {to}: {', '.join(events)}" for (step, to), events in arrows.items()]
    lines += [f"    {step} --> [*]" for step in Step if step in FINAL]
    lines += ["```", "", "| step | what is done |", "|---|---|"]
    lines += [f"| `{step}` | {text} |" for step, text in documented(Step).items()]
    lines += ["", "| event | what it means |", "|---|---|"]
    lines += [f"| `{event}` | {documented(Event).get(event, '')} |" for event in Event]
    lines += ["", "| step | event | next | shown as | pause | clean end |", "|---|---|---|---|---|---|"]
    for (step, event), to in TRANSITIONS.items():
        clean = "" if to.clean is None else "yes" if to.clean else "no"
        pause = "yes" if to.pause else ""
        lines.append(f"| `{step}` | `{event}` | `{to.to}` | {to.phase or ''} | {pause} | {clean} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
