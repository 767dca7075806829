"""The message finder: a key, or an offset of one side, and the message on both sides."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from replicator.admin.message_lookup import NotACopy, by_key, by_offset
from replicator.admin.message_preview import message_at
from replicator.api.access import Role
from replicator.errors import ConfigError, ReplicatorError
from replicator.page.context import PageContext, role_of
from replicator.page.forms import whole
from replicator.routing.queue_map import Queue
from replicator.state.connector_configs import Connector
from replicator.state.known_brokers import Side

__all__ = ["FinderView"]

_SIDES: Final[tuple[Side, Side]] = ("source", "target")
#: Pairs of messages that are shown of one key.
_PAIRS: Final = 10
_ASKED: Final = ("topic", "key", "broker", "queue", "offset", "side")


class FinderView:
    """Asks the clusters, each time that somebody looks for a message."""

    def __init__(self, page: PageContext) -> None:
        self._page = page

    async def find(self, request: Request) -> Response:
        """The form, and what it finds."""
        page, connector = self._page, self._page.connector(request, route=True)
        asked = {name: request.query_params.get(name, "").strip() for name in _ASKED}
        pairs, problem = [], None
        if asked["topic"]:
            try:
                found = await self._find(connector, asked)
                with_body = role_of(request) >= Role.OPERATE
                pairs = [await self._both(pair, with_body=with_body) for pair in found[:_PAIRS]]
            except ReplicatorError as error:
                problem = error
        return page.answer(
            request,
            "find.html",
            title="Find a message",
            connector=connector,
            picks=True,
            live=False,
            asked=asked,
            topics=sorted(page.worker.store.queue_maps(connector.name))[:1000],
            pairs=pairs,
            problem=problem,
        )

    async def _find(self, connector: Connector, asked: dict[str, str]) -> list[dict[str, Any]]:
        """Places of a message on both sides, by side; of one that is not a copy only that at the target, and `why`.

        Raises:
            ConfigError: what is asked for is not complete.
            Unknown: there is no such message.
            ClientError: a cluster does not answer.
        """
        worker = self._page.worker
        if asked["key"]:
            return await by_key(worker, connector, asked["topic"], asked["key"])
        queue_id, offset = whole(asked["queue"]), whole(asked["offset"])
        if queue_id is None or offset is None or not asked["broker"]:
            numbers = {"queue": queue_id, "offset": offset}
            mistakes = [
                f"{name} = {asked[name]!r} is not a whole number"
                for name, found in numbers.items()
                if found is None
            ]
            hint = "give a key; or broker, queue and offset"
            raise ConfigError("\n".join(mistakes) or "no broker is given", hint=hint)
        side: Side = "target" if asked["side"] == "target" else "source"
        queue = Queue(asked["broker"], queue_id)
        try:
            other = await by_offset(worker, connector, asked["topic"], queue, offset, side)
        except NotACopy as error:
            return [{"target": error.place, "why": error.message}]
        name = asked["topic"]
        if side == "target":
            name = worker.store.target_topic(connector.name, name)
        place = {"topic": name, "broker": queue.broker, "queue": queue.queue_id, "offset": offset}
        return [{"source": place, "target": other} if side == "source" else {"source": other, "target": place}]

    async def _both(self, pair: dict[str, Any], *, with_body: bool) -> list[dict[str, Any]]:
        found = []
        for side in _SIDES:
            message, problem = None, ""
            if side not in pair:
                found.append({"side": side, "place": None, "message": None, "problem": pair["why"]})
                continue
            try:
                message = await message_at(self._page.worker, side, pair[side], with_body=with_body)
            except ReplicatorError as error:
                problem = str(error)
            found.append({"side": side, "place": pair[side], "message": message, "problem": problem})
        return found
