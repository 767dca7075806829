"""What a route's settings mean for the data path, its transforms included."""

from __future__ import annotations

import zlib

from replicator.client.pull import Subscription
from replicator.plugins.transforms import chain_of
from replicator.routing.body_compression import BodyCompression
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.parked import ReleasedMessages
from replicator.routing.seal import Sealer
from replicator.settings import RouteSettings

__all__ = ["route_options"]


def route_options(
    route: RouteSettings,
    identity: Identity,
    *,
    settle_timeout: float,
    sealer: Sealer | None = None,
    late_before: int = 0,
    released: ReleasedMessages | None = None,
) -> RouteOptions:
    """What a route's settings mean for the data path; the other arguments are as in `RouteOptions`.

    Raises:
        ConfigError: a transform cannot be had, or takes no waiting messages where the route parks them.
    """
    subscription, tags = Subscription(), None
    if route.sql:
        subscription = Subscription("SQL92", route.sql)
    elif route.tags:
        subscription = Subscription("TAG", " || ".join(route.tags))
        tags = frozenset(tag.encode() for tag in route.tags)
    return RouteOptions(
        identity=identity,
        forward=route.forward,
        born_timestamp=route.born_timestamp,
        on_error=route.on_error,
        on_gap=route.on_gap,
        on_target_loss=route.on_target_loss,
        subscription=subscription,
        tags=tags,
        start_from=route.start_timestamp(),
        batch_messages=route.batch_messages,
        batch_bytes=route.batch_bytes,
        pulls_in_flight=route.pulls_in_flight,
        settle_timeout=settle_timeout,
        dead_letter_topic=route.dead_letter_topic,
        transform=chain_of(route.transforms, waiting="pending" in route.sync),
        compression=_compression(route),
        sealer=sealer,
        late_before=late_before,
        released=released,
        audit_share=route.audit_share if route.audit == "on" else 0.0,
        audit_rules=_rules(route),
    )


def _rules(route: RouteSettings) -> int:
    """A number that stands for what decides which messages are copied, and what is made of them."""
    rules: tuple[object, ...] = (route.tags, route.sql, route.transforms, route.forward, route.rename)
    if route.compression_type != "none":  # others keep the number that they had before there was a choice
        rules += (route.compression_type, route.compress_over)
    return zlib.crc32(repr(rules).encode())


def _compression(route: RouteSettings) -> BodyCompression | None:
    kind = route.compression_type
    return None if kind == "none" else BodyCompression(kind, route.compress_over)
