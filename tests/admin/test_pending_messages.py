"""What brokers do not show is named; `tests/e2e/test_pending_messages.py` counts the rest on real ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.admin import pending_messages as module
from replicator.admin.pending_messages import pending_messages


async def test_half_messages_that_a_broker_keeps_in_rocksdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 5.5 on: its topic of half messages would say that there are none."""

    async def settings(_: object) -> dict[str, str]:
        return {"transRocksDBEnable": "true"}

    async def nothing(*_: object) -> Any:
        return {}

    async def empty(*_: object) -> int:
        return 0

    for name, given in (("read_settings", settings), ("delivered_levels", nothing), ("timer_counts", nothing)):
        monkeypatch.setattr(module, name, given)
    monkeypatch.setattr(module, "max_offset", empty)
    there = SimpleNamespace(address="a:1")
    cluster: Any = SimpleNamespace(is_proxy=False, master=lambda _: there, reader=lambda _: there)

    async def consumed(*_: object) -> Any:
        return SimpleNamespace(offsets={})

    monkeypatch.setattr(module, "read_offsets", consumed)
    found = await pending_messages(cluster, ["a"], lambda _: True)
    assert found.problems == ["half messages that wait at a are not known: it keeps them in RocksDB"]
