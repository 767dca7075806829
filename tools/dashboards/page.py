"""All that is made of the boards: a JSON file of each, and docs/DASHBOARDS.md."""

from __future__ import annotations

from pathlib import Path

from tools.dashboards.grafana import UID, json_of
from tools.dashboards.group import GROUP
from tools.dashboards.jobs import JOBS
from tools.dashboards.metadata import METADATA
from tools.dashboards.model import Board
from tools.dashboards.overview import OVERVIEW
from tools.dashboards.route import ROUTE

__all__ = ["BOARDS", "FILES", "ROOT"]

ROOT = Path(__file__).parent.parent.parent
BOARDS = (OVERVIEW, ROUTE, GROUP, METADATA, JOBS)

_HEAD = """# Dashboards

Made by `python -m tools.dashboards`, as are the files in `dashboards/`. They are for Grafana 11 and later, and want a Prometheus that has
loaded `dashboards/rules.yml`: [how to set both up](../README.md#prometheus-and-grafana). Tests ask a real Prometheus, which scrapes
two workers between real brokers, and a job of Spark's, for each panel; every one of them has data there. Grafana itself was not run.
"""


def _page() -> str:
    return _HEAD + "".join(map(_chapter, BOARDS))


def _chapter(board: Board) -> str:
    variables = ", ".join(f"`{name}`" for name in board.variables)
    lines = [
        f"\n## {board.title}\n",
        f"{board.text} Variables: {variables}. Uid `{UID}{board.name}`, file `dashboards/{board.name}.json`.\n",
        "| panel | unit | what to do | expression |",
        "|---|---|---|---|",
    ]
    for panel in board.panels:
        shown = "<br>".join(f"`{expression}`".replace("|", "\\|") for expression in panel.queries.values())
        lines.append(f"| {panel.title} | {panel.unit} | {panel.text} | {shown} |")
    return "\n".join(lines) + "\n"


#: What is to be in each file.
FILES = {
    **{ROOT / "dashboards" / f"{board.name}.json": json_of(board) for board in BOARDS},
    ROOT / "docs" / "DASHBOARDS.md": _page(),
}
