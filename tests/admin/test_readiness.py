"""When an answer is given about topics that were looked at too long ago."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from replicator.admin import readiness as under_test
from replicator.admin.readiness import LAST_SEEN, _of_last_look
from replicator.metadata.ledger import DELETED, UNTAKEN


@pytest.mark.parametrize(("ago", "old"), [(5.0, False), (14.0, False), (30.0, True)])
def test_what_was_seen_long_ago(ago: float, *, old: bool) -> None:
    """It says since when, and where the reason stands."""
    found = [*_of_last_look(time.time() - ago, 15.0)]
    assert [each.startswith(LAST_SEEN) for each in found] == [True] * old


GROUP = {"group": "g", "topic": "orders", "redelivered": 0, "missed": 0, "without_offset": 0, "stopped_by": []}
PENDING: dict[str, Any] = {"messages": [], "uncounted": 0, "problems": []}


class Named:
    """A cluster whose name servers answer."""

    addresses = ("h:1",)
    is_proxy = True
    refresh = AsyncMock()


async def found(
    monkeypatch: pytest.MonkeyPatch,
    at: float | None,
    lags: Any,
    *,
    groups: Any = (),
    steps: Any = (),
    selected: bool = True,
    deselected: Any = (),
) -> Any:
    """What `readiness` says where the clusters have that."""

    async def gives(value: Any) -> Any:
        return value

    for name, value in (
        ("topic_lags", lags),
        ("verified_topics", []),
        ("pending_of", PENDING),
        ("target_losses", []),
    ):
        monkeypatch.setattr(under_test, name, lambda *_, value=value: gives(value))
    monkeypatch.setattr(under_test, "deselected", lambda *_: deselected)
    plan = SimpleNamespace(steps=steps, groups=groups, unasked=[], denied=[])
    sync = SimpleNamespace(plan=lambda: gives(plan), copied=SimpleNamespace(snapshot=lambda: None), status={})
    topics = SimpleNamespace(of_users=[object()] if selected else [], selector=None)
    route: Any = SimpleNamespace(
        name="route",
        keep=AsyncMock(),
        sync=sync,
        topics=topics,
        settings=SimpleNamespace(topics=["order", "bil+s"]),
    )
    context: Any = SimpleNamespace(
        metadata_refresh_interval=5.0, **dict.fromkeys(("source", "target"), SimpleNamespace(cluster=Named()))
    )
    return await under_test.readiness(route, context, seen_at=time.time(), failed_over_at=at)


def step(before: Any, after: Any, *, kind: str = "topics", blocked: str = "") -> Any:
    shown = {"kind": kind, "broker": "east-a", "name": "orders", "before": before, "after": after}
    action = "create" if before is None else "delete" if after is None else "update"
    return SimpleNamespace(
        kind=kind, blocked=blocked, shown=lambda: {**shown, "action": action, "blocked": blocked, "note": ""}
    )


@pytest.mark.parametrize("at", [None, 12.5])
async def test_after_a_failover_the_switch_that_is_over_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, at: float | None
) -> None:
    """Consumers have read on at the target, and its topics are open there: neither speaks against anything."""
    groups = [GROUP | {"missed": 10}]
    steps = [step({"perm": 6}, {"perm": 4}), step({}, None, kind="groups")]
    ready = await found(monkeypatch, at, [], groups=groups, steps=steps)
    assert ready["ready"] == (at is not None)
    assert ready["failed_over_at"] == at
    assert len(ready["reasons"]) == (0 if at else 3)


async def test_after_a_failover_what_came_to_the_source_since_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    lag = {"topic": "orders", "messages": 7, "counted": True, "problem": "", "seconds": 1.0}
    ready = await found(monkeypatch, 12.5, [lag], groups=[], steps=[step(None, {"perm": 6})])
    assert not ready["ready"]
    assert ready["reasons"][0] == "topic orders: 7 messages are not at the target yet"
    assert ready["reasons"][1].startswith("topic orders at east-a is missing")


async def test_what_differs_is_named_once_for_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though one part of it waits for another, or is not changed at all; long values are left to the plan."""
    steps = [
        step({"order": 4}, {"order": 8}),
        step({"perm": 6, "keys": "a" * 50}, {"perm": 4, "keys": "b"}, blocked="n"),
        step({"perm": 6}, {"perm": 4}, blocked="n"),
        step({"retryMaxTimes": 16}, {"retryMaxTimes": 3}, kind="groups"),
        step({"perm": 6}, {"perm": 4}, blocked=UNTAKEN),
        step({}, None, kind="groups", blocked=DELETED),
    ]
    ready = await found(monkeypatch, None, [], groups=[], steps=steps)
    assert ready["reasons"] == [
        "topic orders at east-a is different: order=4, wanted 8; perm=6, wanted 4; keys: n; see `replicator plan`",
        "group orders at east-a is different: retryMaxTimes=16, wanted 3; see `replicator plan`",
        f"group orders at east-a is not seen at the source: {DELETED}",
    ]


async def test_a_route_without_topics_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may be mistyped: that all of nothing is at the target says nothing."""
    told = await found(monkeypatch, None, [], selected=False)
    assert told["reasons"] == ["no topic of the source is selected: topics = order, bil+s"]
    assert not told["ready"]


async def test_a_topic_that_is_selected_no_more_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it was failed over: the switch is over then."""
    told = await found(monkeypatch, None, [], deselected=["payments"])
    assert not told["ready"]
    assert told["reasons"][0].startswith("topic payments was copied by this route and is not selected any more")
    assert (await found(monkeypatch, 12.5, [], deselected=["payments"]))["ready"]


def test_rights_to_groups_that_are_missing_are_said_once_for_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a step is blocked for want of one, or the last sync was refused it; no other reasons are."""
    monkeypatch.setattr(under_test, "way_out", lambda _context, _why, actions: f"type {actions}")
    refused = "x:1 refused A (38) with NO_PERMISSION (16): no"
    steps: Any = [SimpleNamespace(kind=kind, blocked=why) for kind, why in (("offsets", refused), ("groups", ""))]
    reasons = ["AclException: Need admin permission", "AclException: another", "x:1 does not answer"]
    status = {"kinds": {"groups": {"reasons": reasons}, "topics": {"reasons": reasons}}}
    context: Any = None
    assert [*under_test._refused(steps, status, context)] == [
        "groups cannot be synced: AclException: Need admin permission (and 1 more); type Sub,Get,Create",
        f"offsets cannot be synced: {refused}; type Sub",
    ]
    assert not [*under_test._refused([], status, context)]
