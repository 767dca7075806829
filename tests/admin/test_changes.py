"""Changes wait for a rebalance to end, and are refused if it does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.admin import changes
from replicator.admin.changes import Rebalancing, rates_of, restart_task, set_rates, set_state
from replicator.admin.failover_turn import NotNow
from replicator.connector.sync.ledger import SyncLedger
from replicator.state.connector_configs import State, Unknown
from tests.support.page import PagedWorker, paged_worker


async def test_a_rebalance_is_waited_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_PATIENCE", 0.1)
    with paged_worker(tmp_path) as paged:
        looks = iter([True, True, False])
        monkeypatch.setattr(type(paged.coordinator), "changing_hands", property(lambda _: next(looks)))
        await set_state(paged.worker, "route", State.PAUSED)
        assert paged.connectors.get("route").state is State.PAUSED
        monkeypatch.setattr(type(paged.coordinator), "changing_hands", property(lambda _: True))
        with pytest.raises(Rebalancing):
            await set_state(paged.worker, "route", State.STOPPED)
        assert paged.connectors.get("route").state is State.PAUSED


async def test_a_state_that_somebody_chose_is_not_that_of_an_interrupted_failover(tmp_path: Path) -> None:
    """Whoever repeats it later does not let a connector run that was stopped manually."""
    with paged_worker(tmp_path) as paged:
        ledger = SyncLedger("route", paged.store)
        ledger.put("failover", {"resume": "RUNNING", "by": "w1"})
        await set_state(paged.worker, "route", State.STOPPED)
        assert ledger.get("failover") == {"by": "w1"}


async def test_nothing_runs_while_it_is_failed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failover itself resumes it, where only some topics are switched; and people may stop it."""
    monkeypatch.setattr(changes, "refuse_rivals", lambda *_: None)
    with paged_worker(tmp_path) as paged:
        paged.worker.switching.add("route")
        await set_state(paged.worker, "route", State.STOPPED)
        with pytest.raises(NotNow, match="a failover of connector route is going on"):
            await set_state(paged.worker, "route", State.RUNNING)
        assert paged.connectors.get("route").state is State.STOPPED
        paged.worker.switching.clear()
        await set_state(paged.worker, "route", State.RUNNING)
        assert paged.connectors.get("route").state is State.RUNNING


def _while_it_waits(monkeypatch: pytest.MonkeyPatch, paged: PagedWorker, do: Callable[[], object]) -> None:
    """Somebody else does this while a change waits for the end of a rebalance."""
    looks = iter([do, None])

    def changing_hands(_: object) -> bool:
        other = next(looks)
        if other is not None:
            other()
        return other is not None

    monkeypatch.setattr(type(paged.coordinator), "changing_hands", property(changing_hands))


async def test_rates_are_put_into_the_configuration_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as it was before a rebalance was waited for; nor is a connector made that was deleted meanwhile."""
    with paged_worker(tmp_path) as paged:
        config = {"topics": ["orders"], "exclude_topics": ["secret"]}
        _while_it_waits(monkeypatch, paged, lambda: paged.connectors.update("route", config))
        await set_rates(paged.worker, "route", rate_messages=5, rate_bytes=0)
        found = paged.connectors.get("route").config
        assert (found["exclude_topics"], found["rate_messages"]) == (["secret"], 5)
        _while_it_waits(monkeypatch, paged, lambda: paged.connectors.delete("route"))
        with pytest.raises(Unknown, match="there is no connector 'route'"):
            await set_rates(paged.worker, "route", rate_messages=6, rate_bytes=0)
        assert paged.connectors.all() == {}


async def test_rates_and_tasks(tmp_path: Path) -> None:
    with paged_worker(tmp_path) as paged:
        await _rates_and_tasks(paged)


async def _rates_and_tasks(paged: PagedWorker) -> None:
    assert await set_rates(paged.worker, "route", rate_messages=5, rate_bytes=0) == rates_of(paged.worker, "route")
    assert (await restart_task(paged.worker, "route", "orders"))["worker_id"] == "w1"
    with pytest.raises(Unknown, match="has no task 'none'"):
        await restart_task(paged.worker, "route", "none")
    with pytest.raises(Unknown, match="there is no connector"):
        rates_of(paged.worker, "none")
