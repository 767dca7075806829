"""Accounts and rights as one kind of what a route's metadata task keeps in step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from acl_sync import AclOptions, AclPlan, AclSyncer
from acl_sync.model import Note
from acl_sync.plan import Action as AclAction
from replicator.connector.context import ConnectorContext
from replicator.connector.sync.ledger import SyncLedger
from replicator.errors import ClientError, StartupError
from replicator.metadata.action import Action, Unasked
from replicator.metadata.syncer import Applied
from replicator.observe.logging import get_logger
from replicator.settings import RouteSettings, Settings

__all__ = ["KIND", "AclDone", "AclStep", "AclSync", "Done", "Step", "acl_options"]

KIND: Final = "acl"
_VERBS: Final[Mapping[str, str]] = {"create": "create", "delete": "delete"}

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AclStep:
    """An action on an account, to be shown among those on topics, groups and offsets."""

    action: AclAction

    kind = KIND

    @property
    def broker(self) -> str:
        return self.action.broker

    @property
    def key(self) -> str:
        return self.action.account or "white list"

    @property
    def blocked(self) -> str:
        return self.action.blocked

    def shown(self) -> dict[str, Any]:
        """For people and scripts; secrets are not in it."""
        changes = list(self.action.changes)
        verb = _VERBS.get(self.action.verb.value, "update")
        return {
            "kind": KIND,
            "action": verb,
            "broker": self.broker,
            "name": self.key,
            "before": None if verb == "create" else {},
            "after": None if verb == "delete" else {"changes": changes},
            "blocked": self.blocked,
            "note": "",
        }


@dataclass(frozen=True, slots=True)
class AclDone:
    """What became of a step; `error` is empty where it was done."""

    action: AclStep
    error: str

    def shown(self) -> dict[str, Any]:
        return {**self.action.shown(), "error": self.error}


#: Anything that is to be done to the target's metadata, and that was tried.
Step = Action | AclStep
Done = Applied | AclDone


def acl_options(settings: Settings, *, own: Iterable[str | None]) -> AclOptions:
    """What a worker's settings mean for accounts.

    Args:
        own: the accounts that this program runs as, where it has any.

    Raises:
        ConfigError: a pattern of the settings is an invalid regular expression.
    """
    return AclOptions(
        include=tuple(settings.acl.accounts),
        exclude=tuple(settings.acl.exclude_accounts),
        own=frozenset(name for name in own if name),
        admins=settings.acl.admins,
        deletes=settings.sync_deletes,
        adopt=settings.acl.adopt,
        source_dir=settings.acl.source_dir,
    )


class AclSync:
    """Plans and applies accounts; which of those at the target are ours is kept in `ledger`.

    `may_go_on` is asked before each change.

    Raises:
        ConfigError: a pattern of the settings is an invalid regular expression.
    """

    def __init__(
        self, settings: RouteSettings, context: ConnectorContext, ledger: SyncLedger, may_go_on: Callable[[], bool]
    ) -> None:
        self._may_go_on = may_go_on
        self._context = context
        self._ledger = ledger
        self._deletes = settings.sync_deletes
        #: Whether the group knows all that is ours.
        self._published = True
        self._logged_notes: frozenset[Note] = frozenset()
        #: Brokers that could not be asked at the last plan.
        self.unasked: list[Unasked] = []
        self.forget()

    def forget(self) -> None:
        """Starts over with what the group knows to be ours: the task's last owner may have changed it."""
        self._syncer: AclSyncer | None = None

    def _made(self) -> AclSyncer:
        """The syncer with the worker's own options: no connector can give itself more.

        Raises:
            StartupError: they do not let connectors sync accounts.
        """
        options = self._context.accounts
        if options is None:
            raise StartupError(
                "accounts are not synced by this worker: its own sync has no acl",
                hint="add acl to sync in the settings of all workers, or take it out of the connector's",
            )
        if self._syncer is None:
            self._syncer = AclSyncer(
                self._context.source.cluster,
                self._context.target.cluster,
                replace(options, deletes=options.deletes and self._deletes),
                owned=self._ledger.get(KIND),
            )
        return self._syncer

    async def plan(self) -> list[AclStep]:
        """What is to be done now.

        Raises:
            StartupError: a side has no access control, or refuses to show it.
            ClientError: no broker of a side can be reached.
        """
        plan = await self._plan()
        return [AclStep(action) for action in plan.actions]

    async def _plan(self) -> AclPlan:
        plan = await self._made().plan()
        self.unasked = [Unasked(KIND, broker, reason) for broker, reason in plan.unreachable_brokers]
        for note in plan.notes:
            if note not in self._logged_notes:
                log.warning("accounts synced with restrictions", account=note.account, reason=note.text)
        self._logged_notes = frozenset(plan.notes)
        return plan

    async def sync(self) -> tuple[list[AclStep], list[AclDone]]:
        """Plans and applies, as long as this worker may.

        Raises:
            ClientError: the group cannot be told what is to be made, so it is not made; else as `plan`.
            StartupError: see `plan`.
        """
        plan, syncer = await self._plan(), self._made()
        if not self._may_go_on():
            return [AclStep(action) for action in plan.actions], []  # what is ours is said by another worker by now
        if syncer.claim(plan):
            self._ledger.put(KIND, syncer.owned)
            self._published = False
        if not self._published and not await self._context.publish():
            raise ClientError("no account is changed: the group cannot be told which ones are ours")
        self._published = True
        done: list[AclDone] = []
        for action in plan.pending:
            if not self._may_go_on():
                break  # another worker does it by now
            before = syncer.revision
            (applied,) = await syncer.apply(replace(plan, actions=(action,)))
            done.append(AclDone(AclStep(action), applied.error))
            if syncer.revision != before:
                self._ledger.put(KIND, syncer.owned)
        return [AclStep(action) for action in plan.actions], done
