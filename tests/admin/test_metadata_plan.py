"""The plan for who waits for it: brokers that hang are found first, and not asked again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from replicator.admin import metadata_plan as under_test
from replicator.client.look import meets_silence, silence_of
from replicator.metadata.action import Unasked


async def test_those_that_hang_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "replicator.admin.silent_brokers.silent_brokers", AsyncMock(return_value={"h:1": "no answer"})
    )
    step, unknown = SimpleNamespace(shown=lambda: {"action": "create"}), Unasked("topics", "x", "away")

    async def plan() -> Any:
        assert silence_of("h:1") == "no answer"
        return SimpleNamespace(steps=[step], unasked=[unknown])

    sides = {name: SimpleNamespace(cluster=object()) for name in ("source", "target")}
    route: Any = SimpleNamespace(sync=SimpleNamespace(plan=plan))
    found = await under_test.metadata_plan(route, SimpleNamespace(**sides))  # type: ignore[arg-type]
    assert found == [{"action": "create"}, unknown.shown()]
    assert not meets_silence()
