"""Brokers that do not answer are asked once in a look at many things: each attempt to reach one takes seconds."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from replicator.errors import ClientError, ReplicatorError, RequestTimeout, Unreachable

__all__ = ["NotAskedAgain", "UnresponsiveBrokers"]

T = TypeVar("T")


class NotAskedAgain(Unreachable):
    """A broker that has not answered before, in the same look."""

    def __init__(self, broker: str, why: str) -> None:
        ClientError.__init__(self, why)
        self.address, self.reason = broker, why


class UnresponsiveBrokers:
    """Who has not answered in one look. Until a broker has answered once, others wait for what it is asked first.

    Args:
        known: brokers that have not answered just before, each with why.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self._why = dict(known)
        self._answered: set[str] = set()
        self._first: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ask(self, broker: str, question: Callable[[], Awaitable[T]]) -> T:
        """What `question` gives.

        Raises:
            ClientError: as the question; `NotAskedAgain` at once where `broker` has once not answered.
        """
        if broker not in self._answered:
            async with self._first[broker]:
                if broker not in self._answered:
                    return await self._asked(broker, question)
        return await self._asked(broker, question)

    async def _asked(self, broker: str, question: Callable[[], Awaitable[T]]) -> T:
        if broker in self._why:
            raise NotAskedAgain(broker, self._why[broker])
        try:
            found = await question()
        except (Unreachable, RequestTimeout) as error:
            self._why[broker] = str(error)
            raise
        except ReplicatorError:  # an answer, too
            self._answered.add(broker)
            raise
        self._answered.add(broker)
        return found
