"""The connectors of a group: what each is configured to do, and whether it is to run.

They are records of the shared state, so that a change at one worker reaches all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError
from structlog.contextvars import bound_contextvars, get_contextvars

from replicator.errors import ConfigError, ReplicatorError
from replicator.observe.logging import get_logger
from replicator.plugins.limits import ConnectorLimits
from replicator.plugins.registry import CLASS, PluginConfig, configure
from replicator.plugins.transforms import mistakes_of
from replicator.routing.task_id import TaskId
from replicator.settings import RouteSettings, Settings, explain, leaves, valid_id
from replicator.settings.proxy import mistakes_with_proxy, with_proxy_defaults
from replicator.state.connector import ROUTING, Connector, State, differences, dump
from replicator.state.record import Kind, Record, Version
from replicator.state.store import Store

__all__ = ["OPERATOR", "Connector", "Connectors", "Exists", "State", "Unknown"]

log = get_logger(__name__)


#: Changes that a group makes at most in the seconds for which the mirror of its state may be behind.
_UNSEEN: Final = 1_000_000

#: What is logged when a connector gets a state.
_CHANGES: Final = {
    State.RUNNING: "connector resumed",
    State.PAUSED: "connector paused",
    State.STOPPED: "connector stopped",
}
#: Characters that a log has of a setting's value.
_LONGEST: Final = 500
#: Why a failover stops a connector without waiting for its source.
_DEAD: Final = "its source is declared dead"
#: Settings that only the file, the variables and the command line of a worker can give.
_WORKER_ONLY: Final = frozenset(Settings.model_fields) - frozenset(RouteSettings.model_fields)
#: Who starts a worker: his command line, or a file or variables that it goes by.
OPERATOR: Final = "the worker's own settings"


class Unknown(ReplicatorError):
    """There is no connector of that name."""


class Exists(ReplicatorError):
    """There is another connector of that name."""


def _log_change(before: Connector | None, after: Connector | None, record: Record) -> None:
    """Logs here, too, what another worker was asked for, and by whom where its version says that."""
    change = _change(before, after)
    if not change:
        return
    said = record.value or {}
    # Not as the actor: what an actor asked for is an event of the worker that was asked, which tells all others.
    told = {"asked_by": said.get("by"), "reason": said.get("reason")}
    log.info(
        "connector changed at another worker",
        connector=record.key,
        worker=record.version.worker,
        change=change,
        **{name: value for name, value in told.items() if value},
    )


def _change(before: Connector | None, after: Connector | None) -> str:
    """What makes one of another, in words; empty: nothing, as where two workers have brought the same one."""
    if before is None or after is None:
        return "" if before is after else "deleted" if after is None else "created"
    tasks = [name for name, epoch in after.task_epochs.items() if epoch != before.task_epochs.get(name)]
    if after.failed_over != before.failed_over:
        return f"{before.state} -> {after.state}: {_DEAD}"
    if after.epoch != before.epoch:
        return "restart"
    if tasks:
        return f"restart of {', '.join(tasks)}"
    if after.state is not before.state:
        return f"{before.state} -> {after.state}"
    differ = differences(before, after)
    return f"configuration: {', '.join(differ)}" if differ else ""


def _log_configured(known: Connector, settings: RouteSettings | PluginConfig) -> None:
    """Logs a new configuration with what it replaces: a mistyped name is to be seen."""
    old, new = known.config, dump(settings)
    differ = differences(known, replace(known, settings=settings))
    log.warning(
        "connector has a new configuration",
        connector=known.name,
        differ=differ,
        before={name: _short(old.get(name)) for name in differ},
        after={name: _short(new.get(name)) for name in differ},
    )


def _short(value: object) -> object:
    """A setting as a log has it: lists may have thousands of names."""
    text = str(value)
    return value if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _parse(config: Mapping[str, Any], limits: ConnectorLimits) -> RouteSettings | PluginConfig:
    """The settings that `config` says; ConfigError with all mistakes, one a line."""
    values = dict(config)
    name = values.pop(CLASS, ROUTING)
    if name != ROUTING:
        return configure(str(name), values, limits)
    worker_only = [each for each in leaves(values) if each.partition(".")[0] in _WORKER_ONLY]
    values = {key: value for key, value in values.items() if key.partition(".")[0] not in _WORKER_ONLY}
    if limits.through_proxy:
        values = with_proxy_defaults(values)
    mistakes = [
        *(f"{each} cannot be set for a connector: set it in the settings of each worker" for each in worker_only),
        *mistakes_of(values.get("transforms"), values.get("sync")),
    ]
    try:
        settings = RouteSettings(**values)
    except ValidationError as error:
        mistakes = [*explain(error, RouteSettings), *mistakes]
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return settings


class Connectors:
    """The connectors as the shared state has them now; changes are published by their author.

    Args:
        limits: what this worker's own settings allow them.
    """

    def __init__(self, store: Store, limits: ConnectorLimits | None = None) -> None:
        self._store = store
        self._limits = limits or ConnectorLimits()
        self._known: dict[str, tuple[Version, Connector | None]] = {}
        #: The last change by this worker, until a later one is seen.
        self._own: dict[str, tuple[Version, Connector]] = {}

    def all(self) -> dict[str, Connector]:
        """All connectors that this program can run, by name."""
        found = {}
        for record in self._store.state.records(Kind.CONNECTOR):
            read = self._known.get(record.key)
            if read is None or read[0] != record.version:
                new = None if record.value is None else self._read(record.key, record.value)
                if read is not None and record.version.worker != self._store.state.worker:
                    _log_change(read[1], new, record)
                self._note_overtaken(record, new)
                read = self._known[record.key] = (record.version, new)
            if read[1] is not None:
                found[record.key] = read[1]
        return dict(sorted(found.items()))

    def get(self, name: str) -> Connector:
        """One connector.

        Raises:
            Unknown: there is none.
        """
        found = self.all().get(name)
        if found is None:
            raise Unknown(f"there is no connector {name!r}", hint=f"there are: {', '.join(self.all()) or 'none'}")
        return found

    def _read(self, name: str, value: Mapping[str, Any]) -> Connector | None:
        try:
            return Connector(
                name,
                _parse(value["config"], self._limits),
                State(value["state"]),
                value["origin"],
                value["epoch"],
                value.get("task_epochs", {}),
                value.get("failed_over", 0),
                value.get("made", 0),
            )
        except Exception as error:  # noqa: BLE001 - whatever others have written, it must not end this worker
            log.error(
                "connector configuration is not understood by this worker; the connector does not run here",
                connector=name,
                reason=str(error) or repr(error),
            )
            return None

    def _note_overtaken(self, record: Record, new: Connector | None) -> None:
        """Logs that a change by this worker is lost, since the author of a later one did not know of it."""
        version, own = self._own.get(record.key, (record.version, None))
        if own is None or version == record.version:
            return
        del self._own[record.key]
        after = None if record.value is None else record.value.get("after")
        if after is not None and tuple(after) < version and new is not None:
            log.warning(
                "connector was changed by two workers at once: the other's change is in force, this one's is not",
                connector=record.key,
                worker=record.version.worker,
                state=f"{own.state} -> {new.state}",
                differ=differences(own, new),
            )

    def _put(self, connector: Connector, *, unseen: int = 0, reason: str = "") -> Connector:
        before = self._store.state.record(Kind.CONNECTOR, connector.name)
        record = self._store.put(
            Kind.CONNECTOR,
            connector.name,
            {
                "config": connector.config,
                "state": connector.state,
                "origin": connector.origin,
                "epoch": connector.epoch,
                "task_epochs": connector.task_epochs,
                "failed_over": connector.failed_over,
                "made": connector.made,
                "after": None if before is None else [*before.version],
                "by": str(get_contextvars().get("actor", "")),
                "reason": reason,
            },
            unseen=unseen,
        )
        self._own[connector.name] = record.version, connector
        return connector

    def bring(self, name: str, settings: RouteSettings, state: State = State.RUNNING) -> None:
        """What this worker was started with becomes the group's, unless somebody has decided otherwise.

        Args:
            state: that of a connector that the group does not have yet.
        """
        record = self._store.state.record(Kind.CONNECTOR, name)
        known = self.all().get(name)
        if record is not None and record.value is None:
            log.warning("connector was deleted and is not created again", connector=name)
        elif record is not None and known is None:
            log.error(
                "the group's configuration of the connector is kept, though this worker does not understand it",
                connector=name,
            )
        elif known is None:
            with bound_contextvars(actor=OPERATOR):
                self._put(Connector(name, settings, state, "command line", 0))
                log.info("connector created", connector=name, state=state)
        elif known.settings != settings:
            differ = [key for key, value in dump(settings).items() if known.config.get(key) != value]
            if known.origin == "rest":
                log.warning(
                    "connector was changed over REST; this worker's own configuration of it is not used",
                    connector=name,
                    differ=differ,
                )
            else:
                with bound_contextvars(actor=OPERATOR):
                    _log_configured(known, settings)
                    self._put(replace(known, settings=settings, origin="command line"))

    def _new(self, name: str, settings: RouteSettings | PluginConfig) -> Connector:
        """A version that cannot be mistaken for another of the same name that was deleted just before."""
        before = self._store.state.record(Kind.CONNECTOR, name)
        made = before.version.counter if before else 0
        return Connector(name, settings, State.RUNNING, "rest", epoch=made, made=made)

    def _create(self, name: str, settings: RouteSettings | PluginConfig) -> Connector:
        made = self._put(self._new(name, settings))
        log.info("connector created", connector=name)
        return made

    def create(self, name: str, config: Mapping[str, Any]) -> Connector:
        """A new connector.

        Raises:
            Exists: there is one of that name with another configuration.
            ConfigError: the name or the configuration cannot be used; all mistakes at once.
        """
        settings = self.parse(name, config)
        known = self.all().get(name)
        if known is not None and known.settings != settings:
            raise Exists(f"connector {name!r} exists with another configuration", hint="change it with PUT")
        return known or self._create(name, settings)

    def update(self, name: str, config: Mapping[str, Any]) -> Connector:
        """Creates a connector, or changes it; errors as `create`."""
        settings = self.parse(name, config)
        known = self.all().get(name)
        if known is None:
            return self._create(name, settings)
        if known.settings == settings:
            return known
        changed = self._put(replace(known, settings=settings, origin="rest"))
        _log_configured(known, settings)
        return changed

    def parse(self, name: str, config: Mapping[str, Any]) -> RouteSettings | PluginConfig:
        """The settings that `config` says.

        Raises:
            ConfigError: all mistakes, one a line.
        """
        refused = f"name = {name!r}: up to 100 letters, digits and _ . : @ - are possible"
        mistakes = [] if valid_id(name) else [refused]
        try:
            settings = _parse(config, self._limits)
        except ConfigError as error:
            mistakes.append(error.message)
        else:
            if isinstance(settings, RouteSettings) and "acl" in settings.sync and not self._limits.accounts:
                mistakes.append(
                    "sync has acl, which the settings of this worker do not have in their sync:"
                    " add it there, on all workers"
                )
            if isinstance(settings, RouteSettings) and self._limits.through_proxy:
                mistakes += mistakes_with_proxy(settings)
        if mistakes:
            raise ConfigError("\n".join(mistakes))
        return settings

    def set_state(self, name: str, state: State, *, alone: bool = False, reason: str = "") -> Connector:
        """Lets a connector run, pause or stop; it may be so already.

        Args:
            alone: the group may have decided something else lately that this worker cannot know; this is later.
            reason: what it is done for, where that is not all that was asked for.

        Raises:
            Unknown: there is none.
        """
        known = self.get(name)
        if known.state is state and not alone:
            return known
        changed = self._put(replace(known, state=state), unseen=_UNSEEN if alone else 0, reason=reason)
        log.warning(_CHANGES[state], connector=name, before=known.state, **({"reason": reason} if reason else {}))
        return changed

    def fail_over(self, name: str, at: int, *, alone: bool) -> Connector:
        """Stops a connector whose source is declared dead.

        Args:
            at: when (ms since the epoch); what the source stored before that and is copied later comes late.
            alone: as of `set_state`.

        Raises:
            Unknown: there is none.
        """
        known = self.get(name)
        stopped = replace(known, state=State.STOPPED, failed_over=at, epoch=known.epoch + 1, task_epochs={})
        log.warning(_CHANGES[State.STOPPED], connector=name, before=known.state, reason=_DEAD)
        return self._put(stopped, unseen=_UNSEEN if alone else 0, reason=_DEAD)

    def restart(self, name: str) -> Connector:
        """Ends and begins all tasks of a connector; one that is paused or stopped stays so.

        Raises:
            Unknown: there is none.
        """
        known = self.get(name)
        log.warning("connector restarted", connector=name, state=known.state)
        return self._put(replace(known, epoch=known.epoch + 1, task_epochs={}))

    def restart_task(self, name: str, task: str) -> Connector:
        """Ends and begins one task of a connector, wherever it runs.

        Args:
            task: its name within the connector; whether there is one is not looked at.

        Raises:
            Unknown: there is no such connector.
        """
        known = self.get(name)
        log.warning("task restarted", connector=name, task=task, state=known.state)
        return self._put(
            replace(known, task_epochs={**known.task_epochs, task: known.task_epochs.get(task, 0) + 1})
        )

    def delete(self, name: str) -> None:
        """Forgets a connector and its progress; there may be none. What it has copied stays at the target."""
        if self._store.state.get(Kind.CONNECTOR, name) is None:
            return
        log.warning("connector deleted", connector=name)
        self._store.put(Kind.CONNECTOR, name, None)
        for kind in (Kind.TASK, Kind.POSITION, Kind.OFFSET, Kind.SYNC):
            for key in self._store.state.items(kind):
                if TaskId.parse(key).connector == name:
                    self._store.put(kind, key, None)
