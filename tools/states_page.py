"""Writes docs/QUEUE_STATES.md from the table of a queue's steps: `python -m tools.states_page`."""

from __future__ import annotations

import ast
import inspect
import re
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from replicator.routing import queue_steps
from replicator.routing.queue_steps import FINAL, TRANSITIONS, Event, Step, Transition

PAGE = Path(__file__).parent.parent / "docs" / "QUEUE_STATES.md"

_HEAD = """# What the copy of a queue does

`python -m tools.states_page` writes this page from the table in `replicator/routing/queue_steps.py`.

Each source queue is copied by a pair of tasks that is always in one of these steps. What follows an event is decided
by the table alone. Copying is entered only through both checks: nothing is sent to a target, and nothing of a
source is believed, that was not looked at since the connection to it was made.
"""

#: The fields of a transition, as the table's columns are called.
_COLUMNS = {
    "to": "next",
    "phase": "shown as",
    "pause": "pause",
    "clean": "clean end",
    "unsettled": "unsettled",
    "unshown": "unshown",
}


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


def fields() -> dict[str, str]:
    """What each field of a transition means, as its docstring says."""
    attributes = inspect.cleandoc(Transition.__doc__ or "").partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    return {name: " ".join(text.split()).replace("None", "empty") for name, text in found}


def _shown(flag: bool) -> str:
    return "yes" if flag else ""


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
    lines += ["", "| column | what it says |", "|---|---|"]
    lines += [f"| {_COLUMNS[name]} | {text} |" for name, text in fields().items()]
    lines += ["", f"| step | event | {' | '.join(_COLUMNS.values())} |", "|---|---|" + "---|" * len(_COLUMNS)]
    for (step, event), to in TRANSITIONS.items():
        clean = "" if to.clean is None else _shown(to.clean) or "no"
        said = f"`{to.to}`", to.phase or "", _shown(to.pause), clean, _shown(to.unsettled), _shown(to.unshown)
        lines.append(f"| `{step}` | `{event}` | {' | '.join(said)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
