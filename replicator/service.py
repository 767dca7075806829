"""The composition root: builds a worker from settings, owns signals and the worker's end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import Any, Final

import uvloop

from replicator import __version__
from replicator.api.app import make_app
from replicator.api.server import Server, bind
from replicator.client.cluster import Cluster
from replicator.client.pull import Subscription
from replicator.client.security import Credentials, Security, tls_context
from replicator.errors import ClientError, StartupError
from replicator.observe.logging import get_logger
from replicator.observe.metrics import make_registry
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.selector import TopicSelector, compile_patterns
from replicator.routing.state import LATENCY_BUCKETS, Phase
from replicator.runtime.store import Store
from replicator.runtime.supervisor import Supervisor
from replicator.settings import ClusterSettings, Settings

__all__ = ["DRAINED", "run"]

#: Exit codes.
DRAINED: Final = 0

log = get_logger(__name__)


def run(settings: Settings) -> int:
    """Runs a worker until it is told to stop.

    Returns:
        0 when drained after SIGTERM or SIGINT; 128 + the signal when a second one cut that short.

    Raises:
        ConfigError, StartupError: it cannot run; nothing was written to either cluster.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings))


async def _serve(settings: Settings) -> int:
    selector = TopicSelector(
        compile_patterns("topics", settings.topics), compile_patterns("exclude_topics", settings.exclude_topics)
    )
    source = _cluster(settings.source, "source")
    target = _cluster(settings.target, "target")
    store = Store(settings.store_path)
    try:
        supervisor = Supervisor(
            settings,
            source=source,
            target=target,
            store=store,
            selector=selector,
            make_options=lambda identity: route_options(settings, identity),
            config=_shown(settings),
        )
        sock = bind(settings.rest_host, settings.rest_port)
        try:
            await supervisor.prepare()
        except ClientError as error:
            raise StartupError(error.message, hint=error.hint or "check the address, credentials and TLS") from None
        return await _run_until_signal(supervisor, sock, settings)
    finally:
        await source.close()
        await target.close()
        store.close()


async def _run_until_signal(supervisor: Supervisor, sock: Any, settings: Settings) -> int:
    stop = asyncio.Event()
    received: list[signal.Signals] = []
    main = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        received.append(number)
        if len(received) == 1:
            log.info("draining", signal=number.name)
            stop.set()
        elif main is not None:
            main.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    registry = make_registry(
        _View(supervisor),
        buckets=LATENCY_BUCKETS,
        phases=list(Phase),
        labels=lambda: {"source": supervisor.identity.source, "target": supervisor.identity.target},
        version=__version__,
    )
    server = Server(make_app(supervisor, registry, stopping=stop.is_set), sock)
    serving = asyncio.create_task(server.run_on_socket(), name="http")
    log.info(
        "replicating",
        source=supervisor.identity.source,
        target=supervisor.identity.target,
        topics=len(supervisor.plans),
        metrics=f"http://{server.address}/metrics",
    )
    try:
        await supervisor.run(stop)
    except asyncio.CancelledError:
        if len(received) > 1:
            log.warning("ended before all was drained; the rest is copied at the next start")
            return 128 + received[-1]
        raise
    finally:
        server.should_exit = True
        await serving
    log.info("drained", copied=sum(state.copied for state in supervisor.states))
    return DRAINED


class _View:
    """The supervisor as the metrics see it."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    @property
    def states(self) -> Any:
        return self._supervisor.states

    @property
    def refreshed_at(self) -> float:
        return self._supervisor.refreshed_at

    @property
    def saved_at(self) -> float:
        return self._supervisor.saved_at

    @property
    def memory_used(self) -> int:
        return self._supervisor.budget.used

    @property
    def throttled_seconds(self) -> float:
        return self._supervisor.limiter.throttled_seconds


def _cluster(settings: ClusterSettings, side: str) -> Cluster:
    credentials = None
    if settings.access_key is not None:
        credentials = Credentials(settings.access_key, settings.secret())
    tls = settings.tls
    security = Security(
        credentials, tls_context(tls.mode, ca_file=tls.ca_file, cert_file=tls.cert_file, key_file=tls.key_file)
    )
    return Cluster(
        settings.namesrv,
        security=security,
        name=settings.cluster,
        on_fallback=lambda broker, reason: log.warning(
            "the VIP port cannot be reached, the listen port is used", side=side, broker=broker, reason=reason
        ),
    )


def route_options(settings: Settings, identity: Identity) -> RouteOptions:
    """What the settings mean for the data path."""
    subscription, tags = Subscription(), None
    if settings.sql:
        subscription = Subscription("SQL92", settings.sql)
    elif settings.tags:
        subscription = Subscription("TAG", " || ".join(settings.tags))
        tags = frozenset(tag.encode() for tag in settings.tags)
    return RouteOptions(
        identity=identity,
        forward=settings.forward,
        born_timestamp=settings.born_timestamp,
        on_error=settings.on_error,
        on_gap=settings.on_gap,
        subscription=subscription,
        tags=tags,
        start_from=settings.start_timestamp(),
        batch_messages=settings.batch_messages,
        batch_bytes=settings.batch_bytes,
        pulls_in_flight=settings.pulls_in_flight,
        settle_seconds=settings.settle_seconds,
        dead_letter_topic=settings.dead_letter_topic,
    )


def _shown(settings: Settings) -> Mapping[str, Any]:
    """The settings without secrets."""
    secret: Any = {"secret_key"}
    return settings.model_dump(mode="json", exclude={"source": secret, "target": secret})
