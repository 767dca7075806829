"""Writes docs/cli-schemas.json: the JSON that each command prints, so that reviews show its changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from replicator.api import answers, broker_answers, sync_answers
from replicator.command_output import Report
from replicator.demo.verdict import DemoReport
from replicator.operate import reports
from replicator.operate.doctor.finding import Examination
from replicator.sandbox import reports as sandbox

PAGE = Path(__file__).parent.parent / "docs" / "cli-schemas.json"


class GroupSnapshot(Report):
    """What REST answers about a group and its connectors."""

    cluster: answers.Cluster
    connectors: answers.ConnectorList


#: What each command prints with `-o json`, by its name; the answers of REST are printed as they come.
PRINTED: Final[Mapping[str, Any]] = {
    "acl apply": reports.AclApplied,
    "acl plan": reports.AclPlanned,
    "acl status": reports.AclStatus,
    "allocated": dict[str, list[answers.TaskOfWorker]],
    "apply": list[sync_answers.Applied],
    "backfill": reports.CopyReport,
    "brokers forget": broker_answers.RemovalReport,
    "brokers list": list[broker_answers.KnownBroker],
    "cluster": answers.Cluster,
    "config check": dict[str, reports.SettingValue],
    "connectors config": dict[str, Any],
    "connectors create": answers.ConnectorInfo,
    "connectors delete": None,
    "connectors list": answers.ConnectorList,
    "connectors pause": answers.NamedState,
    "connectors restart": answers.NamedState | answers.Task,
    "connectors resume": answers.NamedState,
    "connectors status": answers.ConnectorStatus,
    "connectors stop": answers.NamedState,
    "connectors tasks": list[answers.Task],
    "connectors update": answers.ConnectorInfo,
    "demo": DemoReport,
    "doctor": Examination,
    "export": reports.ExportReport,
    "failback": reports.Switched,
    "failover": sync_answers.FailoverReport,
    "import": reports.CopyReport,
    "lag": dict[str, list[answers.TopicStatus]],
    "plan": list[sync_answers.PlanStep],
    "plugins config": list[answers.Option],
    "plugins list": list[answers.Plugin],
    "readiness": sync_answers.Readiness,
    "reverse": reports.Switched,
    "sandbox consume": list[sandbox.Consumed],
    "sandbox down": sandbox.SandboxDown,
    "sandbox kill": sandbox.SandboxReport,
    "sandbox produce": sandbox.Produced,
    "sandbox start": sandbox.SandboxReport,
    "sandbox status": sandbox.SandboxReport,
    "sandbox topic": sandbox.TopicMade,
    "sandbox topics": list[sandbox.TopicHeld],
    "sandbox up": sandbox.SandboxReport,
    "spark-package": reports.Package,
    "top": GroupSnapshot,
    "verify": reports.VerifyReport,
    "version": reports.Versions,
    "where": answers.Location | list[answers.CopyOfKey],
}


def document() -> dict[str, Any]:
    """A schema for each command, in the form of JSON Schema 2020-12."""
    adapters = [(name, "serialization", TypeAdapter(printed)) for name, printed in PRINTED.items()]
    schemas, shared = TypeAdapter.json_schemas(adapters)  # type: ignore[arg-type]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What the commands of `replicator` print with `-o json`",
        "commands": {name: schema for (name, _), schema in schemas.items()},
        **shared,
    }


def page() -> str:
    """The file's content."""
    return json.dumps(document(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
