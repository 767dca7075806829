"""Changes of all connectors at once, while others change them too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replicator.admin import changes
from replicator.api.connectors import connector_routes
from replicator.errors import ConfigError
from replicator.state.connector_configs import State
from tests.support.page import PagedWorker, paged_worker


async def put(paged: PagedWorker, path: str) -> Any:
    """What the path answers, without what is around it."""
    found: Any = next(each for each in connector_routes(paged.worker).routes if getattr(each, "path", "") == path)
    return json.loads((await found.endpoint()).body)["body"]


@pytest.mark.parametrize(
    ("path", "state"),
    [("stop", State.STOPPED), ("pause", State.PAUSED), ("resume", State.RUNNING)],
)
async def test_all_are_changed_though_one_is_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, state: State
) -> None:
    """The group is told once, when it has to wait for no rebalance between two of them."""
    monkeypatch.setattr(changes, "refuse_rivals", lambda *_: None)
    with paged_worker(tmp_path) as paged:
        worker: Any = paged.worker
        for name in "abc":
            paged.connectors.create(name, {"topics": [name]})
            paged.connectors.set_state(name, State.STOPPED if state is State.RUNNING else State.RUNNING)
        told: list[int] = []

        async def changed() -> None:
            told.append(1)
            paged.connectors.delete("b")

        worker.changed = changed
        found = await put(paged, f"/connectors/{path}/all")
        assert found == dict.fromkeys(["a", "b", "c", "route"], state.value)
        assert {each.state for each in paged.connectors.all().values()} == {state}
        assert told == [1]


async def test_what_may_not_run_keeps_no_other_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that another one stands in the way of, or that is being failed over."""

    def refuse(_worker: object, name: str, _settings: object) -> None:
        if name == "a":
            raise ConfigError("topic a: another connector copies it")

    monkeypatch.setattr(changes, "refuse_rivals", refuse)
    with paged_worker(tmp_path) as paged:
        for name in "abc":
            paged.connectors.create(name, {"topics": [name]})
            paged.connectors.set_state(name, State.STOPPED)
        paged.worker.switching.add("b")
        with pytest.raises(ConfigError) as told:
            await put(paged, "/connectors/resume/all")
        assert told.value.message.splitlines() == [
            "connector a was not resumed, all others were: topic a: another connector copies it",
            "connector b was not resumed, all others were: a failover of connector b is going on: wait for its end",
        ]
        running = {name for name, each in paged.connectors.all().items() if each.state is State.RUNNING}
        assert running == {"c", "route"}
