"""A failover does not wait for what a route that stands still cannot copy."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.admin import failover, running_tasks
from replicator.admin import missing_messages as under_test
from replicator.admin.failover_turn import NotNow
from tests.admin.failover_setup import Setup


@pytest.mark.parametrize("state", ["STOPPED", "PAUSED"])
async def test_what_a_route_that_stands_still_lacks_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """It says so at once, changes nothing, and says what to type; a dead source's is failed over all the same."""

    async def lags(*_: object, **__: object) -> list[dict[str, Any]]:
        return [{"topic": "orders", "messages": left, "problem": "", "unknown_queues": []}]

    monkeypatch.setattr(under_test, "topic_lags", lags)
    monkeypatch.setattr(running_tasks, "_POLL_INTERVAL", 0.001)
    monkeypatch.setattr(failover, "_POLL_INTERVAL", 0.001)
    setup = Setup()
    setup.state, left = state, 50
    with pytest.raises(NotNow) as refused:
        await setup.switch()
    assert refused.value.message == (
        f"connector route is {state}, so it does not copy what west lacks of east:"
        " orders (50 messages); nothing was changed"
    )
    assert "`replicator connectors resume route`" in refused.value.hint
    assert setup.told == []
    assert (await setup.switch(dry_run=True))["missing"][0]["messages"] == 50
    assert (await setup.switch(source_dead=True))["stopped"]
    setup.kept["failover"] = {"resume": "RUNNING"}  # one of some topics has stopped it, and was interrupted
    assert (await setup.switch(topics=frozenset({"T1"})))["stopped"]
    setup.kept.clear()
    setup.state, left = state, 0
    assert (await setup.switch())["drained"]
