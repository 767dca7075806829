"""The wizard: nothing is stopped unless the connector's name was typed in."""

from __future__ import annotations

import re
from typing import Any

import pytest

from replicator.admin.failover import FailoverOptions
from replicator.connector.route import Route
from replicator.errors import ConfigError
from replicator.page import failover_wizard
from replicator.page.failover_wizard import options_of
from tests.support.page import PagedWorker
from tests.support.worker import until

REPORT = {
    "connector": "route",
    "topics": [],
    "stopped": True,
    "drained": True,
    "missing": [],
    "offsets": 7,
    "topics_opened": ["orders"],
    "groups": [],
    "pending": {
        "messages": [{"topic": "orders", "kind": "timer", "messages": 7, "parked": "off"}],
        "uncounted": 0,
        "problems": [],
    },
    "released": None,
    "synced": {"at": 1764000000.0, "groups": [{"group": "readers", "queues": 8}]},
    "problems": [],
}


@pytest.fixture
def asked(paged: PagedWorker, monkeypatch: pytest.MonkeyPatch) -> list[FailoverOptions]:
    """How each failover was asked for."""
    found: list[FailoverOptions] = []

    async def fail_over(
        _worker: object, _connector: object, _route: object, how: FailoverOptions
    ) -> dict[str, Any]:
        found.append(how)
        return {**REPORT, "dry_run": how.dry_run}

    monkeypatch.setattr(failover_wizard, "failover", fail_over)
    paged.route = object.__new__(Route)
    return found


def test_options_are_what_the_form_says() -> None:
    assert options_of({}) == FailoverOptions(drain_timeout=60.0)
    given = {"drain_timeout": "1.5", "source_dead": "yes", "open_all": "yes", "dry_run": "yes", "topics": "a, b"}
    assert options_of(given) == FailoverOptions(
        drain_timeout=1.5, source_dead=True, open_all=True, dry_run=True, topics=frozenset({"a", "b"})
    )
    for wrong in ("-1", "x", "nan", "inf", "1e9"):
        with pytest.raises(ConfigError, match="drain_timeout = "):
            options_of({"drain_timeout": wrong})
    with pytest.raises(ConfigError, match="names no topic"):
        options_of({"topics": " , "})  # which is not all of them


@pytest.mark.parametrize("typed", ["", "rout", "ROUTE", "route2"])
def test_another_name_starts_nothing(paged: PagedWorker, asked: list[FailoverOptions], typed: str) -> None:
    answered = paged.browser().post("/page/connectors/route/failover", data={"dry_run": "no", "confirm": typed})
    assert (answered.status_code, "type route to confirm it" in answered.text) == (400, True)
    assert asked == []


@pytest.mark.parametrize(("dry_run", "title"), [("yes", "Dry run of a failover"), ("no", "Failover of route")])
async def test_a_run_is_shown_with_its_report(
    paged: PagedWorker, asked: list[FailoverOptions], dry_run: str, title: str
) -> None:
    async with paged.client() as client:
        form = {"dry_run": dry_run, "confirm": "route" if dry_run == "no" else ""}
        started = await client.post("/page/connectors/route/failover", data=form)
        assert started.status_code == 303

        async def report() -> str:
            text = (await client.get(started.headers["location"])).text
            return text if "Report" in text else ""

        text = await until(report, seconds=10)
    assert title in text
    assert re.search(r"Offsets (to write|written)</dt><dd>7<", text)
    assert "orders: 7 timer messages" in text
    assert re.search(r"readers: as of 2025-11-24[^<]*, 8 queues<", text)
    assert [how.dry_run for how in asked] == [dry_run == "yes"]


@pytest.mark.parametrize(
    ("changed", "ready"),
    [
        ({}, True),
        ({"problems": ["orders: the target cannot be asked"]}, False),
        ({"stopped": False}, False),
        ({"drained": False}, False),
    ],
)
async def test_applications_start_where_all_was_done(
    paged: PagedWorker, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], *, ready: bool
) -> None:
    """Else somebody has to look first, as the command says, too."""

    async def fail_over(*_: object) -> dict[str, Any]:
        return {**REPORT, **changed, "dry_run": False}

    monkeypatch.setattr(failover_wizard, "failover", fail_over)
    paged.route = object.__new__(Route)
    async with paged.client() as client:
        started = await client.post("/page/connectors/route/failover", data={"dry_run": "no", "confirm": "route"})

        async def report() -> str:
            text = (await client.get(started.headers["location"])).text
            return text if "Report" in text else ""

        text = await until(report, seconds=10)
    assert ("Applications can be started" in text, "Look at the above" in text) == (ready, not ready)


def test_a_run_that_nobody_remembers(paged: PagedWorker) -> None:
    for number in ("7", "x", "", "9" * 30):
        found = paged.browser().get(f"/page/failover/run?connector=route&id={number}")
        assert (found.status_code, "remembers no failover" in found.text) == (404, True)
