"""Writes docs/ALERTS.md from the rules; a test holds the two together."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["PAGE", "SEEN", "page"]

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "ALERTS.md"

#: What made an alert fire in a real Prometheus that scrapes real workers between real brokers.
SEEN: Final = {
    "WorkerDown": "a worker killed with SIGKILL",
    "Absent": "the last worker killed",
    "FewerMembers": "one of two workers killed",
    "NoLease": "the source's broker stopped with SIGSTOP",
    "NoActiveLease": "the same",
    "RefreshOld": "the same",
    "StateNotSaved": "`store_path` replaced by a file",
    "LagHigh": "the target's broker stopped with SIGSTOP, messages sent to the source",
    "LagCritical": "the same, for longer",
    "NothingCopied": "the same",
    "QueuesWaiting": "the same",
    "QueuesStalled": "the same",
    "SyncOld": "the same",
    "SyncFailed": "a topic's perm changed at the source, while the replicator's account at the target may not change topics",
    "LeasesLost": "the source's broker stopped with SIGSTOP three times for longer than a lease",
    "SourceGap": "messages that retention deleted at the source before they were read",
    "QueuesFailed": "a message with properties too long for the target, `on_error=fail`",
    "MessagesRefused": "the same with `on_error=skip`",
    "SourceReset": "a topic deleted at the source and recreated",
    "TargetLost": "a target broker started with an older store",
    "TopicGone": "a topic taken out of the connector's configuration",
    "DuplicateMessages": "a copy sent to the target's queue once more, with its provenance",
    "ForeignMessages": "somebody else's message in the target's queue",
    "Drift": "a topic's perm changed at the target by hand",
    "GroupsWouldMiss": "a group's offset at the target set beyond the copy of its offset",
}

_HEAD = """# Alerts

Made by `python -m tools.alerts_page` from `dashboards/rules.yml`. What to do about each: [RUNBOOK.md](RUNBOOK.md).

`promtool test rules` shows each firing and resting (`dashboards/rules_test.yml`). The last column is what made it fire in a real Prometheus
too, in `tests/e2e/test_alerts.py`, `tests/e2e/test_faults.py`, `test_target_loss.py` and `test_missing_rights.py`, where minutes of the rules are seconds: before that, while all is well, under load and idle, none fires, and of the
others none ever does.

| alert | severity | after | fires when | seen with a real Prometheus |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    rules = yaml.safe_load((ROOT / "dashboards/rules.yml").read_text(encoding="utf-8"))
    return _HEAD + "".join(_row(rule) for group in rules["groups"] for rule in group["rules"] if "alert" in rule)


def _row(rule: dict[str, Any]) -> str:
    name = rule["alert"].removeprefix("Replicator")
    expression = " ".join(line.partition("#")[0].strip() for line in rule["expr"].splitlines()).strip()
    shown = expression.replace("|", "\\|")
    seen = SEEN.get(name, "no")
    return f"| {rule['alert']} | {rule['labels']['severity']} | {rule['for']} | `{shown}` | {seen} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
