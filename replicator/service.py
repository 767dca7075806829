"""The composition root: builds a worker from settings, owns signals and the worker's end."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, Final, Literal

import uvloop

from replicator import systemd
from replicator.admin.metrics_snapshot import snapshot
from replicator.admin.topic_recorder import TopicRecorder
from replicator.aio.backoff import Backoff
from replicator.aio.garbage import rarely_collected
from replicator.aio.loop_monitor import EventLoopMonitor
from replicator.api.access import Tokens
from replicator.api.deferred import Application, Deferred
from replicator.api.server import Server, bind
from replicator.client.cluster import Cluster
from replicator.client.nameservers import NoBrokers
from replicator.client.proxy_cluster import ProxyCluster
from replicator.client.security import Security
from replicator.connector.context import BrokerAway, OutOfReach
from replicator.connector.identity import is_of_group
from replicator.errors import ClientError, ConfigError, StartupError, is_absence
from replicator.exit_codes import ExitCode
from replicator.observe.audit import AUDIT, Audit
from replicator.observe.logging import configure, get_logger, log_repeats
from replicator.observe.recent_events import recent_events
from replicator.observe.topic_history import TopicHistory
from replicator.protocol.uniform_run import COMPILED
from replicator.ranges.access import Access
from replicator.secret_files import SecretFiles
from replicator.settings import ClusterSettings, Settings
from replicator.settings.name_patterns import is_name
from replicator.state.store import InUse, Store, numbered
from replicator.stop_signals import StopSignals
from replicator.worker.builder import build
from replicator.worker.worker import Worker

__all__ = ["cluster_of", "run"]

#: Workers that may share one directory without saying where each keeps its state.
_WORKERS: Final = 100

#: Seconds between two looks for the first broker of a cluster; a broker registers within 30 s of its start.
_BROKERS_FIRST: Final = 0.5
_BROKERS_MOST: Final = 5.0
#: Seconds that a start takes at most once brokers are there; systemd must not give up before.
_START_SECONDS: Final = 90.0

#: Of what people have asked earlier processes for, how much is among the events.
_RECALLED: Final = 100

log = get_logger(__name__)


def run(settings: Settings) -> int:
    """Runs a worker, or as many as `workers` says, until it is asked to stop.

    Returns:
        0 when drained after SIGTERM or SIGINT, or stopped before it had started; 4 when not all could be drained
        within `drain_timeout`; 128 + the signal when a second one cut that short.

    Raises:
        ConfigError, StartupError: it cannot run; nothing was written to either cluster.
    """
    if settings.workers > 1:
        from replicator import worker_processes  # noqa: PLC0415 - only where there are several

        return worker_processes.run(settings)
    configure(level=settings.log_level)
    with rarely_collected(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings))


async def _serve(settings: Settings) -> int:
    security = {"source": Access.of(settings.source).security(), "target": Access.of(settings.target).security()}
    tokens = Tokens(**settings.rest.bearers())
    files = _watched(settings, security, tokens)
    signals = StopSignals()
    store = _store(settings)
    watching = asyncio.create_task(files.run(), name="secret files")
    starting = asyncio.create_task(_say_alive(), name="alive")
    try:
        sock = _socket(settings)
        again = False
        while True:
            worker = await signals.unless_asked(_start(settings, security, store, sock, again=again))
            if worker is None:
                log.info("stopped before it had started")
                return ExitCode.OK
            if again:
                gc.unfreeze()  # what a worker that stood by has left
                gc.collect()
            else:
                _recall(store)  # once it is built, so that it tells the others
            starting.cancel()
            gc.freeze()  # what a start has made stays: looking through it again and again finds nothing
            try:
                # The server closes the socket that it is given, and there may be another one.
                code = await _run_until_signal(worker, sock.dup(), tokens, files, signals)
            finally:
                await worker.close()
            if code is not None:
                return code
            again = True
            starting = asyncio.create_task(_say_alive(), name="alive")
    except asyncio.CancelledError:
        if signals.second is None:
            raise
        log.warning("stopped before everything was drained; the rest is copied at the next start")
        return 128 + signals.second
    finally:
        watching.cancel()
        starting.cancel()
        store.close()


async def _say_alive() -> None:
    """While a worker starts: one that has stood by for its source does so under systemd's watch."""
    while True:
        systemd.alive()
        await asyncio.sleep(1.0)


def _watched(settings: Settings, security: Mapping[str, Security], tokens: Tokens) -> SecretFiles:
    """The files that are read again when they change."""
    files, rest = SecretFiles(), settings.rest

    def renew(side: str, cluster: ClusterSettings) -> None:
        security[side].renew(Access.of(cluster).security())

    for side, cluster in (("source", settings.source), ("target", settings.target)):
        tls = cluster.tls
        secrets = (cluster.secret_key_file, cluster.socks.password_file)
        files.watch(side, (*secrets, tls.ca_file, tls.cert_file, tls.key_file), partial(renew, side, cluster))
    of_rest = (rest.token_file, rest.operate_token_file, rest.read_token_file)
    files.watch("rest tokens", of_rest, lambda: tokens.renew(Tokens(**rest.bearers())))
    return files


async def _start(
    settings: Settings, security: Mapping[str, Security], store: Store, sock: socket.socket, *, again: bool
) -> Worker:
    """A worker that can run, as soon as both clusters have a broker, or answer again.

    Args:
        again: after one that stood by: what is not in order now is waited for, since no other may be there.
    """
    backoff, known = Backoff(_BROKERS_FIRST, _BROKERS_MOST), ""
    while True:
        try:
            connect = partial(_connect, settings, security)
            return await build(settings, connect=connect, store=store, rest_address=_address(sock))
        except (ClientError, StartupError) as error:
            if waiting := _waits_for(error, store):
                pause = backoff.next()
                if error.message != known:
                    known = error.message
                    log.warning(waiting, reason=known)
                systemd.waiting(f"waiting: {known}", 2 * _BROKERS_MOST + _START_SECONDS)
                await asyncio.sleep(pause)
                continue
            if not again and isinstance(error, StartupError):
                raise
            if not again:
                hint = error.hint or "check the address, credentials and TLS"
                raise StartupError(error.message, hint=hint) from None
            log.error("the source is back, but this worker cannot start yet", reason=str(error))
            await asyncio.sleep(_BROKERS_MOST)


def _address(sock: socket.socket) -> str:
    """Where others find REST, as in a URL."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _waits_for(error: ClientError | StartupError, store: Store) -> str:
    """What a start waits for, as it is logged; empty where it ends.

    Where a worker has run before, the addresses are right, and somebody will be there.
    """
    if isinstance(error, NoBrokers):
        return "waiting for a broker to register"
    away = isinstance(error, OutOfReach | BrokerAway) or is_absence(error)
    return "waiting for brokers to answer" if away and "target_id" in store.identity() else ""


def _store(settings: Settings) -> Store:
    """The state of this worker; where another one uses the default path, or another group has, the next one."""
    if "store_path" in settings.model_fields_set:
        return Store(settings.store_path)
    for number in range(1, _WORKERS):
        try:
            store = Store(numbered(settings.store_path, number))
        except InUse:
            continue
        if is_of_group(settings, store.identity()):
            return store
        found = {"path": str(store.directory), **store.identity()}
        log.warning("store belongs to another worker group; not used", **found)
        store.close()
    return Store(settings.store_path)


def _recall(store: Store) -> None:
    """What people have asked this worker's earlier processes for is among its events."""
    try:
        recent_events.recall(Audit(store.directory / AUDIT).asked_for(_RECALLED))
    except OSError as error:
        log.warning("what was asked of earlier processes cannot be read", reason=str(error))


def _socket(settings: Settings) -> socket.socket:
    """The port of REST; where the default one is taken, any free one."""
    if "port" in settings.rest.model_fields_set:
        return bind(settings.rest.host, settings.rest.port)
    try:
        return bind(settings.rest.host, settings.rest.port)
    except StartupError:
        sock = bind(settings.rest.host, 0)
        url = f"{'http' if settings.rest.tls.cert_file is None else 'https'}://{_address(sock)}"
        log.warning(
            "the default port is in use; another one is used",
            default=settings.rest.port,
            port=sock.getsockname()[1],
            hint=f"for commands, set REPLICATOR_URL={url}",
        )
        return sock


async def _run_until_signal(
    worker: Worker, sock: socket.socket, tokens: Tokens, files: SecretFiles, signals: StopSignals
) -> int | None:
    """The exit code; None where the worker has only waited for its source, which is there now."""
    cut, rest = 0, worker.settings.rest

    def on_stop(number: signal.Signals) -> None:
        nonlocal cut
        log.info("draining", signal=number.name)
        cut = worker.routes.cut
        systemd.stopping()

    signals.on_first(on_stop)
    history = TopicHistory()
    loop_monitor = EventLoopMonitor([log_repeats, systemd.alive, TopicRecorder(worker, history).record])

    async def metrics() -> bytes:
        # Nor is this needed before somebody asks.
        from replicator.observe.metrics import process_registry, render  # noqa: PLC0415

        return await asyncio.to_thread(render, await snapshot(worker, loop_monitor), process_registry())

    def application() -> Application:
        return _application(
            worker,
            history,
            tokens,
            metrics=metrics,
            stopping=signals.asked.is_set,
            closing=lambda: server.should_exit,
        )

    server = Server(Deferred(application), sock, rest.tls)
    files.watch("rest.tls", (rest.tls.cert_file, rest.tls.key_file), server.renew_certificate)
    serving = asyncio.create_task(server.run_on_socket(), name="http")
    beating = asyncio.create_task(loop_monitor.run(), name="pulse")
    if not COMPILED:
        log.warning("no compiled code for this machine: a message takes twice the CPU; reinstall the package")
    log.info(
        "replicating" if worker.standby is None else "standing by",
        source=worker.identity.source,
        target=worker.identity.target,
        worker=worker.id,
        group=worker.group.name,
        page=f"{server.url}/",
        metrics=f"{server.url}/metrics",
    )
    doing = "replicating" if worker.standby is None else "standing by for"
    systemd.ready(f"{doing} {worker.identity.source} to {worker.identity.target}, REST at {server.url}")
    try:
        again = await worker.run(signals.asked)
    finally:
        beating.cancel()
        server.should_exit = True
        await serving
    if again:
        return None
    if left := worker.routes.cut - cut:
        log.warning("stopped before everything was drained", copied=worker.routes.copied, left=left)
        return ExitCode.NOT_DRAINED
    log.info("drained", copied=worker.routes.copied)
    return ExitCode.OK


def _application(
    worker: Worker,
    history: TopicHistory,
    tokens: Tokens,
    *,
    metrics: Callable[[], Awaitable[bytes]],
    stopping: Callable[[], bool],
    closing: Callable[[], bool],
) -> Application:
    """REST, and the page for people, which is made when somebody asks for it."""
    # FastAPI alone takes a third of the time that all imports take.
    from replicator.admin.overview import Overview  # noqa: PLC0415
    from replicator.api.access import is_page  # noqa: PLC0415
    from replicator.api.app import make_app  # noqa: PLC0415
    from replicator.api.guard import Guard  # noqa: PLC0415

    overview = Overview(worker, history)
    rest = make_app(worker, metrics=metrics, stopping=stopping, overview=overview, closing=closing)

    def make() -> Application:
        from replicator.page.app import make_page  # noqa: PLC0415

        return make_page(worker, overview)

    page = Deferred(make)

    async def by_path(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await (page if is_page(scope["path"]) else rest)(scope, receive, send)

    settings = worker.settings.rest
    return Guard(by_path, tokens=tokens, host=settings.host if settings.is_open else None)


def cluster_of(settings: ClusterSettings, topics: Sequence[str] | None = None) -> Cluster:
    """A client of a cluster, for commands that need no worker.

    Args:
        topics: those that a Proxy is asked for; None: the command can't go without name servers and brokers.

    Raises:
        ConfigError: only a Proxy is reached, and the command can't do with it; or a secret cannot be used.
    """
    if topics is None:
        if settings.proxy:
            raise ConfigError(
                "proxy is set, but this command asks name servers and brokers, and not through a Proxy",
                hint="make them reachable, by an address map or SOCKS5, and leave proxy out",
            )
        topics = ()
    return _client(settings, Access.of(settings).security(), topics)


def _client(settings: ClusterSettings, security: Security, topics: Sequence[str], **more: Any) -> Cluster:
    if settings.proxy:
        more.pop("on_fallback", None)  # nothing is sent there
        names = [*filter(is_name, topics)]
        return ProxyCluster(settings.namesrv, names, security=security, name=settings.cluster, **more)
    return Cluster(settings.namesrv, security=security, name=settings.cluster, **more)


def _connect(
    settings: Settings,
    security: Mapping[str, Security],
    side: Literal["source", "target", "mirror"],
    may_go_on: Callable[[], bool] | None,
) -> Cluster:
    name: Literal["source", "target"] = "source" if side == "source" else "target"
    cluster = settings.source if name == "source" else settings.target

    def on_fallback(broker: str, reason: str) -> None:
        if side != "mirror":  # the target's own client says it
            log.warning(
                "the VIP port cannot be reached; the listen port is used", side=side, broker=broker, reason=reason
            )

    return _client(cluster, security[name], settings.topics, may_go_on=may_go_on, on_fallback=on_fallback)
