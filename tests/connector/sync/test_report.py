"""What a metadata task reports is what REST promises, and what other workers keep."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.contextvars import bound_contextvars
from structlog.testing import capture_logs

from replicator.api.sync_answers import SyncStatus
from replicator.connector.sync.ledger import SyncLedger
from replicator.connector.sync.report import SyncReport
from replicator.metadata.action import Action
from replicator.metadata.ledger import DRIFT
from replicator.metadata.syncer import Applied
from replicator.observe.audit import Audit
from replicator.state.record import Kind
from replicator.state.record_types import fit
from replicator.state.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    made.state.worker = "w1"
    yield made
    made.close()


def _action(name: str, *, blocked: str = "") -> Action:
    write = cast("Any", None)
    return Action(kind="topics", broker="b", key=name, before=None, after={"perm": 6}, write=write, blocked=blocked)


def test_what_is_reported_is_as_promised(store: Store) -> None:
    """Counts and reasons of each resource, and each change with who made it, where and for whom."""
    ledger, audit = SyncLedger("route", store), Audit(store.directory / "audit.jsonl")
    context = cast("Any", SimpleNamespace(store=store, audit=audit))
    report = SyncReport("route", context, ledger, ["topics", "offsets"])
    done = [Applied(_action("orders"), ""), Applied(_action("bills"), "refused")]
    with bound_contextvars(actor="REST 10.0.0.1"):
        report.write("topics", [_action("odd", blocked=DRIFT)], done, {"c": "away"}, {})
    report.write("topics", [], [Applied(_action("odd"), "")], {}, {})
    report.write("offsets", [], [], {}, {"redelivered": 3, "missed": 0, "without_offset": 1})
    answer = {**report.status, "audit": ledger.get("audit")["entries"]}
    found = SyncStatus.model_validate(answer)
    assert found.model_dump(exclude_unset=True, by_alias=True) == answer
    topics, offsets = found.kinds["topics"], found.kinds["offsets"]
    assert (topics.applied, topics.failed, topics.blocked, topics.reasons) == (2, 0, 0, [])
    assert (offsets.redelivered, offsets.missed, offsets.without_offset) == (3, 0, 1)
    named = [(each.name, each.error, each.worker, each.connector, each.actor) for each in found.audit]
    assert named == [
        ("orders", "", "w1", "route", "REST 10.0.0.1"),
        ("bills", "refused", "w1", "route", "REST 10.0.0.1"),
        ("odd", "", "w1", "route", ""),
    ]
    audit.close()
    lines = (store.directory / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == answer["audit"]
    for record in ("status", "audit"):
        fit(Kind.SYNC, f"route/{record}", [1, "w1"], ledger.get(record), now=time.time())


def test_a_failure_has_its_reasons_and_no_success(store: Store) -> None:
    context = cast("Any", SimpleNamespace(store=store, audit=SimpleNamespace(note=lambda _: "")))
    report = SyncReport("route", context, SyncLedger("route", store), ["topics"])
    blocked = [_action("odd", blocked=DRIFT), _action("bills", blocked="it is compacted")]
    problem = report.write("topics", blocked, [Applied(_action("orders"), "refused")], {"": "away"}, {})
    topics = SyncStatus.model_validate({**report.status, "audit": []}).kinds["topics"]
    assert (topics.at, topics.applied, topics.failed, topics.blocked, topics.drift) == (0, 0, 1, 2, 1)
    assert topics.reasons == ["cluster: away", "refused"]
    assert problem == "topics: cluster: away"


def test_offsets_of_a_new_group_wait_for_the_next_sync_of_groups(store: Store) -> None:
    """It makes the group, and nobody has to do anything; where it does not, there is a warning."""
    context = cast("Any", SimpleNamespace(store=store, audit=SimpleNamespace(note=lambda _: "")))
    report = SyncReport("route", context, SyncLedger("route", store), ["groups", "offsets"])
    failed = [Applied(_action("g in orders"), "b answered SUBSCRIPTION_GROUP_NOT_EXIST: no such group")]
    with capture_logs() as logs:
        report.write("groups", [], [], {}, {})
        assert report.write("offsets", [], failed, {}, {}) == ""
        assert report.write("offsets", [], failed, {}, {}) == ""
        offsets = report.status["kinds"]["offsets"]
        assert (offsets["at"], offsets["applied"], offsets["failed"]) == (0, 0, 0)
        report.write("groups", [], [], {}, {})
        assert [each for each in logs if each["log_level"] == "warning"] == []
        assert report.write("offsets", [], failed, {}, {}).startswith("offsets: b answered")
        assert [each["what"] for each in logs if each["log_level"] == "warning"] == ["offsets/b/g in orders"]
        report.write("offsets", [], [], {}, {})
        assert report.write("offsets", [], failed, {}, {}) == ""


def test_where_groups_are_not_synced_nothing_makes_them(store: Store) -> None:
    context = cast("Any", SimpleNamespace(store=store, audit=SimpleNamespace(note=lambda _: "")))
    report = SyncReport("route", context, SyncLedger("route", store), ["offsets"])
    failed = [Applied(_action("g in orders"), "b answered SUBSCRIPTION_GROUP_NOT_EXIST: no such group")]
    assert report.write("offsets", [], failed, {}, {}).startswith("offsets: b answered")
