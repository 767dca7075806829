"""The history of a soak says which changes of accounts were asked for, and which the source has acknowledged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from acl_sync.model import Account
from replicator.errors import Unreachable
from tests.soak import accounts as module
from tests.soak.accounts import Accounts
from tests.soak.history import History


class Side:
    """A guarded cluster that takes changes, or does not while it is `away`."""

    away = False

    def __init__(self, _: object) -> None:
        self.kept: dict[str, object] = {}

    async def put(self, wanted: Account) -> None:
        self._refuse()
        self.kept[wanted.name] = wanted

    async def drop(self, name: str) -> None:
        self._refuse()
        self.kept.pop(name, None)

    def _refuse(self) -> None:
        if Side.away:
            raise Unreachable("a:1", "away")


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "Side", Side)
    monkeypatch.setattr(Side, "away", False)
    with History(tmp_path / "history.jsonl") as made:
        yield made


def told(history: History) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in each.items() if name not in ("at", "what")}
        for each in history.of("account")
    ]


async def test_each_change_is_told_before_and_after(history: History) -> None:
    """With what the account is to be: a right on a topic, or nothing."""
    accounts = Accounts(cast("Any", None), cast("Any", None), history)
    await accounts.change(1, 0.3)
    await accounts.change(1, 0.999)
    wanted = {"number": 1, "topic": "probe-one", "rights": ["Pub"]}
    gone = {"number": 1, "topic": "", "rights": None}
    assert told(history) == [
        {**wanted, "step": "asked"},
        {**wanted, "step": "acknowledged"},
        {**gone, "step": "asked"},
        {**gone, "step": "acknowledged"},
    ]


async def test_what_was_not_acknowledged_is_told_with_the_reason(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given again in the end."""
    accounts = Accounts(cast("Any", None), cast("Any", None), history)
    monkeypatch.setattr(Side, "away", True)
    await accounts.change(0, 0.0)
    with pytest.raises(Unreachable):
        await accounts.finish()
    monkeypatch.setattr(Side, "away", False)
    await accounts.finish()
    found = told(history)
    assert [each["step"] for each in found] == ["asked", "failed", "asked", "failed", "asked", "acknowledged"]
    assert {each.get("reason", "") for each in found} == {"", "a:1 cannot be reached (away)"}
