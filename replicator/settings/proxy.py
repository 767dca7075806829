"""What works from a source of which only a Proxy is reached, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from replicator.settings.clusters import ClusterSettings, comma_list
from replicator.settings.name_patterns import is_name
from replicator.settings.route import RouteSettings

__all__ = ["LEFT_OUT", "REFUSED_TARGET", "mistakes_with_proxy", "names_proxy", "with_proxy_defaults"]

#: What pydantic takes for true.
_TRUE: Final = frozenset({"true", "1", "yes", "on", "y", "t"})

#: Kinds of `sync` that a Proxy answers for.
_SYNCED: Final = ("offsets",)
#: What a worker says at its start.
LEFT_OUT: Final = (
    "settings of topics and groups, order configurations, accounts, and messages that wait at the source; a topic's"
    " type and other attributes; a topic that is deleted at the source is waited for"
)
REFUSED_TARGET: Final = (
    "target.proxy is set, but a Proxy creates no topics, and does not tell what its brokers have stored, which each"
    " recovery goes by: name the name servers of the target, and make its brokers reachable"
)


def names_proxy(cluster: object) -> bool:
    """Whether a cluster's settings, as they were given, say that a Proxy is reached."""
    if isinstance(cluster, ClusterSettings):
        return cluster.proxy
    return isinstance(cluster, Mapping) and str(cluster.get("proxy", "")).lower() in _TRUE


def mistakes_with_proxy(route: RouteSettings) -> Iterator[str]:
    """What of a route cannot be had through a Proxy, each with the way out."""
    if patterns := [topic for topic in route.topics if not is_name(topic)]:
        yield (
            f"topics = {patterns[0]!r} is a pattern, and a Proxy does not tell which topics there are:"
            " name them, as in --topics orders,payments"
        )
    if refused := [kind for kind in route.sync if kind not in _SYNCED]:
        yield (
            f"sync has {', '.join(refused)}, which a Proxy does not tell of: leave sync out, or set it to none, or"
            " to offsets for the groups that are named in sync_groups"
        )
    if route.retry_topics or route.dlq_topics:
        yield "retry_topics and dlq_topics need the list of groups, which a Proxy does not give: leave them out"
    if route.sql:
        yield "sql is set, but a Proxy does not say whether its brokers filter by SQL92: use tags"
    if route.engine == "spark" or route.backfill:
        yield "engine=spark and backfill are not possible through a Proxy: leave them out"


def with_proxy_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """A route's settings as they were given, and of `sync` what works where it was not given."""
    if given.get("sync") is not None:
        return dict(given)
    try:
        groups = comma_list(given.get("sync_groups") or ())
    except ValueError:  # its own check will say so
        groups = []
    named = isinstance(groups, list) and bool(groups) and all(map(is_name, groups))
    return {**given, "sync": ["offsets"] if named else []}
