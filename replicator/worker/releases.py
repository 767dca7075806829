"""The releases of parked messages that this worker sees to: begun by a failover, continued after a restart."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from replicator.aio.backoff import Backoff
from replicator.aio.set_within import set_within
from replicator.connector.context import ConnectorContext
from replicator.connector.release import Release
from replicator.connector.route import Route
from replicator.errors import ReplicatorError
from replicator.observe.logging import get_logger
from replicator.state.connector_configs import Connectors, State
from replicator.worker.connectors import Routes

__all__ = ["Releases"]

#: Seconds to wait after a fault: the first time, and the most.
_BACKOFF_FIRST: Final = 0.5
_BACKOFF_MOST: Final = 10.0
#: Seconds that a failover waits for what is to be sent at once.
_PATIENCE: Final = 60.0
#: In an order, beside topics that were named: all that the route selects.
_ALL: Final = ""

log = get_logger(__name__)


class Releases:
    """Of each connector one release at a time; `me` is this worker's id.

    A release is a record of the group, `release`, that names the worker that sees to it, and the topics: none stand
    for all that the route selects.
    """

    def __init__(
        self,
        me: str,
        routes: Routes,
        connectors: Connectors,
        context: ConnectorContext,
        *,
        work: asyncio.TaskGroup,
    ) -> None:
        self._me = me
        self._routes = routes
        self._connectors = connectors
        self._context = context
        self._work = work
        #: Held while a release is ordered: until its task has begun, nobody else may begin one.
        self._ordering: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._releases: dict[str, Release] = {}
        self._begun: dict[str, asyncio.Event] = {}
        self._faults: dict[str, str] = {}

    async def would(self, route: Route, topics: frozenset[str]) -> dict[str, Any]:
        """What a release now would do; errors as `Release.plan`."""
        release = self._release(route, lambda topic: _names(topics, topic, route))
        return release.would(await release.plan())

    async def order(
        self,
        route: Route,
        topics: frozenset[str],
        others: Mapping[str, Any],
        *,
        publish: Callable[[], Awaitable[None]],
    ) -> dict[str, Any]:
        """Releases what is parked for `topics`, or for all if there are none; what is due later is seen to here.

        What an earlier order has not released yet remains ordered.

        Args:
            others: the live workers besides this one.
            publish: has the group know of the order before anything is sent.

        Returns:
            what was done by the time that all was sent that could be sent at once.

        Raises:
            ReplicatorError: that could not be done in time; it is tried again, and may be ordered again.
        """
        async with self._ordering[route.name]:
            known = route.sync.ledger.get("release")
            waits = bool(known) and not known["done"]
            if waits and known["by"] in others:
                raise ReplicatorError(
                    f"worker {known['by']} releases the parked messages already",
                    hint="ask that worker, or end it and repeat the failover here",
                )
            wanted = _merged(topics, known["topics"]) if waits else sorted(topics)
            begun = self._begun.get(route.name)
            is_beginning = route.name in self._tasks and begun is not None and not begun.is_set()
            if begun is None or not (is_beginning and waits and known["topics"] == wanted):
                await self._end(route.name)
                route.sync.ledger.put("release", {"by": self._me, "topics": wanted, "done": False})
                await publish()
                begun = self._start(route)
        if not await set_within(begun, _PATIENCE):
            raise ReplicatorError(
                f"parked messages could not be released: {self._faults.get(route.name, 'it takes long')}",
                hint="it is tried again; repeat the failover to see how it stands",
            )
        return self._releases[route.name].done.shown()

    async def resume(self) -> None:
        """Goes on with releases that this worker saw to before it was restarted."""
        for route in self._routes:
            if not isinstance(route, Route):
                continue
            known = route.sync.ledger.get("release")
            busy = route.name in self._tasks or self._ordering[route.name].locked()
            if known and known["by"] == self._me and not known["done"] and self._is_over(route) and not busy:
                log.info("the release of parked messages goes on", connector=route.name)
                self._start(route)

    async def close(self) -> None:
        """Ends all; whoever is started with this worker's id goes on."""
        for name in list(self._tasks):
            await self._end(name)

    # The work.

    def _release(self, route: Route, concerns: Callable[[str], bool]) -> Release:
        tags = frozenset(tag.encode() for tag in route.settings.tags)
        return Release(route.name, self._context, concerns, tags=tags)

    def _start(self, route: Route) -> asyncio.Event:
        release = self._releases[route.name] = self._release(route, partial(self._concerns, route))
        self._faults.pop(route.name, None)
        begun = self._begun[route.name] = asyncio.Event()
        see_to_it = self._see_to_it(route, release, begun)
        task = self._work.create_task(see_to_it, name=f"release of {route.name}")
        task.add_done_callback(partial(self._forget, route.name))
        self._tasks[route.name] = task
        return begun

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        """One that has ended, for whatever reason, must not keep a later look from going on with it."""
        if self._tasks.get(name) is task:
            del self._tasks[name]

    async def _end(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _see_to_it(self, route: Route, release: Release, begun: asyncio.Event) -> None:
        """Plans again after each fault: what is at the target says what was sent."""
        backoff = Backoff(_BACKOFF_FIRST, _BACKOFF_MOST)
        mine, is_done = partial(self._is_mine, route), False
        while not is_done and mine():
            try:
                # What a worker sent before it died may still wait inside a broker.
                await asyncio.sleep(self._context.settle_timeout)
                await release.begin(await release.plan(), mine)
                if not mine():  # what is left is theirs
                    self._faults[route.name] = "the route runs again, or another worker sees to it"
                    continue
                begun.set()
                log.info("parked messages released", connector=route.name, **release.done.shown())
                await release.go_on(mine)
                is_done = not release.done.waiting
            except ReplicatorError as error:
                self._faults[route.name] = str(error)
                log.warning("parked messages cannot be released now", connector=route.name, reason=str(error))
                await asyncio.sleep(backoff.next())
            except Exception as error:  # a bug here ends neither the worker nor the copying
                self._faults[route.name] = f"a bug: {error!r}"
                log.exception("parked messages cannot be released", connector=route.name)
                await asyncio.sleep(backoff.next())
        if is_done and mine():
            route.sync.ledger.put("release", {**route.sync.ledger.get("release"), "done": True})
            log.info("all parked messages are released", connector=route.name)
        elif waiting := len(release.done.waiting):  # the connector was deleted or runs again, or others see to it
            log.warning("parked messages are not released here any more", connector=route.name, messages=waiting)

    def _is_mine(self, route: Route) -> bool:
        known = route.sync.ledger.get("release")
        return bool(known) and known["by"] == self._me and self._is_over(route)

    def _is_over(self, route: Route) -> bool:
        """Whether something is to be released that is not copied any more."""
        topics = route.sync.ledger.get("release")["topics"]
        return any(self._has_ended(route, topic) for topic in topics or [_ALL])

    def _concerns(self, route: Route, topic: str) -> bool:
        """Whether what is parked for a topic is released: it was ordered, and is not copied any more."""
        known, now = route.sync.ledger.get("release"), self._routes.get(route.name)
        is_named = bool(known) and isinstance(now, Route) and _names(known["topics"], topic, now)
        return is_named and self._has_ended(route, topic)

    def _has_ended(self, route: Route, topic: str) -> bool:
        """Whether the route, or the copy of that topic, has ended; without a topic the route."""
        connector, now = self._connectors.all().get(route.name), self._routes.get(route.name)
        if connector is None or not isinstance(now, Route):
            return False
        return connector.state is State.STOPPED or (bool(topic) and not now.topics.is_copied(topic))


def _names(order: Collection[str], topic: str, route: Route) -> bool:
    """Whether an order is of a topic; one of everything is of what `route` selects, whatever was parked before."""
    return topic in order or ((not order or _ALL in order) and route.topics.is_copied(topic))


def _merged(topics: Collection[str], before: Collection[str]) -> list[str]:
    """The topics of two orders as one."""
    both = {*(topics or [_ALL]), *(before or [_ALL])}
    return [] if both == {_ALL} else sorted(both)
