"""Reports of a metadata task: to the group, to the log, and to the audit log."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from structlog.contextvars import get_contextvars

from replicator.connector.context import ConnectorContext
from replicator.connector.sync.acl import Done, Step
from replicator.connector.sync.ledger import SyncLedger
from replicator.metadata.ledger import DRIFT
from replicator.observe.logging import get_logger
from replicator.observe.printable import printable
from replicator.protocol.codes import Response

__all__ = ["SyncReport"]

#: What a broker says of an offset of a group that it does not have.
_NO_GROUP: Final = Response.SUBSCRIPTION_GROUP_NOT_EXIST.name

log = get_logger(__name__)


class SyncReport:
    """The reports of the route `connector`, which syncs `kinds` now."""

    def __init__(
        self, connector: str, context: ConnectorContext, ledger: SyncLedger, kinds: Collection[str]
    ) -> None:
        self._connector = connector
        self._context = context
        self._ledger = ledger
        self._kinds = kinds
        self._logged: dict[str, str] = {}
        # How often groups were synced, and how often when an offset of one that the target lacks was first seen.
        self._group_syncs = 0
        self._unmade: dict[tuple[str, str], int] = {}

    @property
    def status(self) -> dict[str, Any]:
        """What was written last; nothing of kinds that are not synced any more."""
        written = self._ledger.get("status")
        kinds = {kind: each for kind, each in written.get("kinds", {}).items() if kind in self._kinds}
        return {**written, "kinds": kinds} if written else {}

    def write(
        self,
        kind: str,
        actions: Sequence[Step],
        done: Sequence[Done],
        failures: Mapping[str, str],
        more: Mapping[str, int],
    ) -> str:
        """Reports the outcome for one kind, also in the group's shared state.

        Args:
            failures: by broker, or "" for a whole cluster, why it could not be asked.
            more: further fields of this resource.

        Returns:
            a problem of any kind; empty if there is none.
        """
        blocked = [action for action in actions if action.blocked]
        tried = [each for each in done if each.error]
        failed = self._due(kind, tried)
        unwritten = self.note(kind, done)
        known = self.status.get("kinds", {})
        before = known.get(kind, {})
        report = {
            "at": before.get("at", 0.0) if failures or tried else time.time(),
            "applied": before.get("applied", 0) + len(done) - len(tried),
            "blocked": len(blocked),
            "drift": sum(action.blocked == DRIFT for action in blocked),
            "failed": len(failed),
            "reasons": sorted(
                printable(reason)
                for reason in {
                    *(f"{broker or 'cluster'}: {why}" for broker, why in failures.items()),
                    *(each.error for each in failed),
                    *([unwritten] if unwritten else []),
                }
            ),
            **more,
        }
        kinds = {**known, kind: report}
        self._ledger.put("status", {"owner": self._context.store.state.worker, "kinds": kinds})
        self._log(kind, blocked, failed, failures)
        return next((f"{name}: {why}" for name, each in kinds.items() for why in each["reasons"]), "")

    def _due(self, kind: str, failed: Sequence[Done]) -> Sequence[Done]:
        """What concerns an operator of it: not an offset of a new group, which the next sync of groups makes."""
        if kind == "groups":
            self._group_syncs += 1
        if kind != "offsets" or "groups" not in self._kinds:
            return failed
        lacking = [_name(each) for each in failed if _NO_GROUP in each.error]
        self._unmade = {name: self._unmade.get(name, self._group_syncs) for name in lacking}
        return [each for each in failed if self._unmade.get(_name(each)) != self._group_syncs]

    def _log(self, kind: str, blocked: Iterable[Step], failed: Iterable[Done], failures: Mapping[str, str]) -> None:
        """Logs what an operator has to know, once each."""
        news = {f"{kind}/{broker}": reason for broker, reason in failures.items()}
        news |= {f"{kind}/{each.action.broker}/{each.action.key}": each.error for each in failed}
        news |= {f"{kind}/{action.broker}/{action.key}": action.blocked for action in blocked}
        for key, reason in news.items():
            if self._logged.get(key) != reason:
                log.warning("out of sync at the target", what=key, reason=reason)
        for key, reason in self._logged.items():
            if key.startswith(f"{kind}/") and key not in news:
                log.info("in sync at the target again", what=key, before=reason)
        others = {key: why for key, why in self._logged.items() if not key.startswith(f"{kind}/")}
        self._logged = others | news

    def note(self, kind: str, done: Sequence[Done]) -> str:
        """Writes the changes to the audit log, with who asked for them where somebody did.

        Returns:
            why the audit log lacks some of it, which the log has then; empty if it has all.
        """
        unwritten = ""
        who = {"worker": self._context.store.state.worker, "connector": self._connector}
        if actor := get_contextvars().get("actor", ""):
            who["actor"] = actor
        entries = [{"at": time.time(), **who, **each.shown()} for each in done]
        for entry in entries:
            if why := self._context.audit.note(entry):
                unwritten = f"the audit log cannot be written ({why}), what was done is in the log of this worker"
            if kind != "offsets":
                log.info("target changed", **{name: entry[name] for name in ("kind", "action", "broker", "name")})
        if kind != "offsets":  # there are too many of those to keep in every worker
            self._ledger.audit(entries)
        return unwritten


def _name(done: Done) -> tuple[str, str]:
    return done.action.broker, done.action.key
