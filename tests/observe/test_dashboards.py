"""Dashboards, rules and the runbook: made by the generator, of metrics that there are, each alert shown to fire."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from replicator.cli import app
from replicator.observe.catalogue import ALWAYS, JOBS, METRICS, PREFIX, Spec
from tests.support.prometheus import tool
from tools.dashboards.grafana import UID
from tools.dashboards.model import Board
from tools.dashboards.page import BOARDS, FILES, ROOT

DIRECTORY = ROOT / "dashboards"
RUNBOOK = (ROOT / "docs/RUNBOOK.md").read_text(encoding="utf-8")
RULES = [
    rule
    for group in yaml.safe_load((DIRECTORY / "rules.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in RULES if "alert" in rule}
ENDS = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
#: What is not the replicator's own: Prometheus's, the process's; and what the workers' job adds.
OTHERS = {
    *("ALERTS", "up", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"),
    *("process_max_fds", "process_start_time_seconds"),
}
EVERY = {**METRICS, **JOBS}
SCRAPED = {"job", "instance", "le", "reason", "alertname", "alertstate"}


def expressions() -> list[str]:
    """All that Prometheus is asked."""
    asked = [expression for board in BOARDS for panel in board.panels for expression in panel.queries.values()]
    asked += [event.expression for board in BOARDS for event in board.events]
    return asked + [rule["expr"] for rule in RULES]


def scraped() -> dict[str, Spec]:
    """The catalogue by the names of samples."""
    return {PREFIX + name + end: spec for name, spec in EVERY.items() for end in ENDS[spec.kind]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_files_are_what_the_generator_makes(path: Path) -> None:
    """`python -m tools.dashboards` writes them."""
    assert path.read_text(encoding="utf-8") == FILES[path]


def test_only_metrics_that_there_are_with_labels_that_they_have() -> None:
    """In panels and rules."""
    known = scraped()
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    for asked in expressions():
        names = set(re.findall(r"\b(?:rocketmq_replicator_\w+|process_\w+|python_\w+|replicator:\w+)", asked))
        assert names or {"up", "ALERTS"} & set(re.findall(r"\w+", asked)), asked
        assert names <= known.keys() | OTHERS | recorded, asked
        for name, labels in re.findall(r"\b(rocketmq_replicator_\w+)\{(.*?)\}", asked):
            chosen = set(re.findall(r"(\w+)(?:=~|!=|=)", labels))
            assert chosen <= {*ALWAYS, *known[name].labels, *SCRAPED}, asked


def test_every_metric_is_on_a_board() -> None:
    """What nobody sees need not be counted."""
    text = " ".join(expressions())
    assert not [
        name for name, spec in EVERY.items() if not any(PREFIX + name + end in text for end in ENDS[spec.kind])
    ]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_boards_are_as_people_expect_them(board: Board) -> None:
    """No data source of ours, a refresh, variables, every panel with a text and a unit; none overlaps."""
    made = json.loads((DIRECTORY / f"{board.name}.json").read_text(encoding="utf-8"))
    assert made["uid"] == f"rocketmq-replicator-{board.name}"
    assert made["refresh"] == "30s"
    assert [v["name"] for v in made["templating"]["list"]] == ["datasource", "docs", *board.variables]
    panels = [panel for panel in made["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["fieldConfig"]["defaults"]["noValue"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert not re.search(r"\[\d", target["expr"])
            assert target.get("instant", False) == (panel["type"] in {"stat", "table"})
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_grafana_reads_what_is_written(board: Board) -> None:
    """By its own schema: nothing is lost when the file is read and written again."""
    made = json.loads((DIRECTORY / f"{board.name}.json").read_text(encoding="utf-8"))
    again = json.loads(JSONEncoder().encode(models.Dashboard.from_json(made)))
    assert again == made


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_links_lead_somewhere(board: Board) -> None:
    """To chapters of the runbook, and to boards."""
    uids = {f"{UID}{each.name}" for each in BOARDS}
    made = json.loads((DIRECTORY / f"{board.name}.json").read_text(encoding="utf-8"))
    links = [link["url"] for panel in made["panels"] for link in panel.get("links") or ()]
    assert links or board.name == "jobs"
    for url in links:
        if url.startswith("/d/"):
            assert url.removeprefix("/d/").partition("?")[0] in uids
        else:
            page, _, anchor = url.partition("#")
            assert page == "${docs}/docs/RUNBOOK.md"
            assert anchor in {alert.lower() for alert in ALERTS}


def test_every_alert_is_linked_from_a_panel() -> None:
    """But those that no panel shows."""
    linked = {f"Replicator{name}" for board in BOARDS for panel in board.panels for name in panel.alerts}
    assert ALERTS.keys() - linked == {"ReplicatorTopicGone"}


def test_lines_are_red_where_their_alert_fires() -> None:
    """Where an alert compares with minutes, and its panel has a limit, they are the same."""
    limits = {
        name: eval(found[1])  # a product of two numbers
        for name, rule in ALERTS.items()
        if (found := re.search(r"> ([\d* ]+)$", rule["expr"])) and "*" in found[1]
    }
    assert len(limits) > 6
    for board in BOARDS:
        for panel in board.panels:
            for name in panel.alerts:
                if panel.bad is not None and f"Replicator{name}" in limits:
                    assert limits[f"Replicator{name}"] in {panel.warn, panel.bad}, (panel.title, name)


@pytest.mark.fetched
def test_the_rules_are_right() -> None:
    """As promtool sees it: syntax, and what fires when."""
    for command in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
        ended = subprocess.run(
            [tool("promtool"), *command], cwd=DIRECTORY, capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_alert_is_shown_to_fire() -> None:
    """In rules_test.yml, where also nothing else fires."""
    tests = yaml.safe_load((DIRECTORY / "rules_test.yml").read_text(encoding="utf-8"))["tests"]
    shown = {
        label
        for test in tests
        for check in test.get("promql_expr_test", ())
        for sample in check["exp_samples"]
        for label in re.findall(r'alertname="(\w+)"', sample["labels"])
    }
    assert shown == ALERTS.keys()


@pytest.mark.parametrize("alert", ALERTS)
def test_alerts_say_what_people_need(alert: str) -> None:
    """How long, how bad, what, and where it is explained."""
    rule = ALERTS[alert]
    assert rule["for"]
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert rule["annotations"]["summary"]
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert (ROOT / page).exists()
    assert anchor == alert.lower()
    assert f"### {alert}\n" in RUNBOOK


def test_the_runbook_is_of_these_alerts_and_of_commands_that_there_are() -> None:
    """No chapter and no command that is not there any more."""
    assert set(re.findall(r"^### (\w+)$", RUNBOOK, re.MULTILINE)) == ALERTS.keys()
    commands = typer.main.get_command(app)
    said = re.findall(r"`replicator ([a-z][^`]*?)`", RUNBOOK, re.DOTALL)
    assert len(said) > 20
    for line in said:
        found: Any = commands
        for word in line.split():
            if not hasattr(found, "commands"):
                break
            found = found.get_command(None, word)
            assert found is not None, line
