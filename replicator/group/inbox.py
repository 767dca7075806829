"""What a worker believes of the messages on the system topics, and what it has ignored, by reason."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Final

from replicator.aio.clock import now
from replicator.group.control_log import LogMessage
from replicator.group.freshness import Freshness, ReplayWindow
from replicator.group.membership import MemberState
from replicator.group.signature import Forged, Signer, Unsigned, WrongSignature
from replicator.group.wire import Envelope, NewerForm, Unreadable, read_message
from replicator.observe.logging import get_logger

__all__ = ["Inbox"]

#: Seconds between two log lines about messages that are ignored for one reason.
_LOGGED: Final = 60.0
#: Reasons that workers of one group with different secrets have to ignore each other.
_OF_SECRETS: Final = frozenset({Unsigned.reason, WrongSignature.reason})

log = get_logger(__name__)


class Inbox:
    """Reads messages of `groups`; `ignored` counts what it did not believe, by reason.

    Args:
        patience: seconds after which a heartbeat is too old to have been written by a live worker.
        own: the incarnation of this process. Its heartbeats are believed however old the echo is that they name:
            after an outage they name none of later, and they count from when they were sent.
    """

    def __init__(self, groups: Collection[str], signer: Signer, *, patience: float, own: str = "") -> None:
        self.ignored: dict[str, int] = {}
        self._groups = groups
        self._signer = signer
        self._patience = patience
        self._own = own
        self._window = ReplayWindow()
        self._freshness = Freshness()
        self._logged: dict[str, float] = {}
        self._unchecked = False
        #: When each broker stored the last message of our own that was read.
        self._own_stored: dict[str, int] = {}
        #: And when it stored the first one.
        self._own_first: dict[str, int] = {}
        #: When each stored the last one that is signed otherwise, and when that was read.
        self._otherwise: dict[str, tuple[int, float]] = {}

    @property
    def hears_other_secret(self) -> bool:
        """Whether workers of the group write now that have another secret, or none: neither hears the other.

        What stands in the topics from before a secret was changed does not count: that was stored long before the
        last message of our own there, by the broker's clock.
        """
        own, patience = self._own_stored, self._patience
        return any(
            now() - read <= patience and own[broker] - stored <= patience * 1000
            for broker, (stored, read) in self._otherwise.items()
            if broker in own
        )

    @property
    def lives_beside_others(self) -> bool:
        """Whether `hears_other_secret` is of workers that have written since this process began to."""
        own = self._own_first
        beside = any(broker in own and stored > own[broker] for broker, (stored, _) in self._otherwise.items())
        return beside and self.hears_other_secret

    def open(self, said: LogMessage) -> Envelope | None:
        """What a message says; None where it is of another group, or not believed."""
        try:
            verified = self._signer.verify(said.queue.topic, said.body, self._groups)
            envelope = None if verified is None else read_message(verified.body)
        except Forged as error:
            if error.reason in _OF_SECRETS:
                self._otherwise[said.queue.broker] = said.stored, now()
            self._ignore(said, error.reason, str(error))
            return None
        except NewerForm as error:
            self._ignore(said, "newer", str(error))
            return None
        except Unreadable as error:
            self._ignore(said, "unreadable", str(error))
            return None
        if verified is None or envelope is None or envelope.group not in self._groups:
            return None
        if verified.signed and not verified.known and not self._unchecked:
            self._unchecked = True
            log.warning(
                "signatures of control messages are not verified",
                hint="set worker_group_secret_file to the group's secret",
            )
        if verified.known and (repeated := self._repeated(said, envelope)):
            self._ignore(said, *repeated)
            return None
        if envelope.incarnation == self._own:
            self._own_stored[said.queue.broker] = said.stored
            self._own_first.setdefault(said.queue.broker, said.stored)
        return envelope

    def fail(self, said: LogMessage, error: Exception) -> None:
        """Counts a message that could not be handled, which is a bug: reading goes on behind it."""
        self._ignore(said, "failed", f"{type(error).__name__}: {error}", error)

    def _repeated(self, said: LogMessage, envelope: Envelope) -> tuple[str, str] | None:
        """Why a signed message does not count as written by its worker now: a word, and a sentence."""
        if not self._window.admits(said.queue, envelope.incarnation, envelope.counter):
            return "replayed", f"a message of worker {envelope.worker} was replayed"
        heartbeat = envelope.heartbeat
        if heartbeat is None or heartbeat.stage is MemberState.LEFT:
            return None
        age = self._freshness.age(said.queue.broker, said.stored, heartbeat.echo)
        if age <= self._patience or envelope.incarnation == self._own:
            return None
        what = f"a heartbeat of worker {envelope.worker} was stored up to {age:.0f} s after it was written"
        return "stale", f"{what}: it came late, or was written again"

    def _ignore(self, said: LogMessage, kind: str, why: str, error: Exception | None = None) -> None:
        self.ignored[kind] = self.ignored.get(kind, 0) + 1
        if now() - self._logged.get(kind, -inf) < _LOGGED:
            return
        self._logged[kind] = now()
        # A broker that was paused stores what had waited for it: as a rule nobody has attacked then.
        write = log.warning if kind == "stale" else log.error
        queue = str(said.queue)
        write("message on a system topic ignored", queue=queue, kind=kind, reason=why[:500], exc_info=error)
