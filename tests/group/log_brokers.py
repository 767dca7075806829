"""Brokers without a network that each have one queue of a system topic, for tests of what reads a whole log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from replicator.client.pull import Pulled
from replicator.group import control_log
from replicator.protocol.codes import Response
from replicator.protocol.message import StoredMessage

__all__ = ["LogBroker", "LogCluster", "patch_client"]

#: What a broker does with a pull at an offset; None: it gives what it has.
Trouble = Callable[[int], Exception | int | None]


class LogBroker:
    """Has messages with these bodies, stored a second apart; `pulls` counts how often it was asked for some.

    `trouble` is raised, or is the code of an answer that gives nothing.
    """

    def __init__(self, *bodies: bytes, trouble: Trouble = lambda _: None) -> None:
        self.address = "127.0.0.1:10911"
        self.bodies = bodies
        self.trouble = trouble
        self.pulls = 0

    async def pull(self, offset: int, count: int) -> Pulled:
        self.pulls += 1
        trouble, end = self.trouble(offset), len(self.bodies)
        if isinstance(trouble, Exception):
            raise trouble
        if trouble is not None:
            return Pulled(trouble, "", [], offset, 0, end, 0)
        if offset >= end:
            await asyncio.Event().wait()  # as long as the test lasts
        shown = [
            StoredMessage(at, 0, 0, 0, at * 1000, 0, 0, bytes(4) + self.bodies[at], b"")
            for at in range(offset, min(offset + count, end))
        ]
        return Pulled(Response.SUCCESS, "", shown, offset + len(shown), 0, end, 0)


class LogCluster:
    """A client of these brokers."""

    account = ""

    def __init__(self, **brokers: LogBroker) -> None:
        self._brokers = brokers

    def brokers(self) -> dict[str, LogBroker]:
        return self._brokers

    def reader(self, broker: str) -> LogBroker:
        return self._brokers[broker]

    writer = master = reader

    def is_master(self, _broker: str, _address: str) -> bool:
        return True

    async def refresh(self) -> None: ...

    async def close(self) -> None: ...


def patch_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on logs read such brokers."""

    async def recent_range(broker: LogBroker, *_: object) -> tuple[int, int]:
        if isinstance(trouble := broker.trouble(-1), Exception):
            raise trouble
        return 0, len(broker.bodies)

    async def pull(broker: LogBroker, _topic: str, _queue: int, offset: int, *, count: int, **_: Any) -> Pulled:
        return await broker.pull(offset, count)

    monkeypatch.setattr(control_log, "recent_range", recent_range)
    monkeypatch.setattr(control_log, "pull", pull)
