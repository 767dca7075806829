"""What the copy of one queue does, and what follows each event: one table, and the diagram in the docs is its.

Nothing about either side is assumed without a check: `COPY` is entered only through `CHECK_TARGET`, after
whatever made the target's end uncertain, and through `CHECK_SOURCE`, after whatever made the source uncertain.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from replicator.errors import ClientError, ProtocolError
from replicator.routing.faults import (
    Drained,
    LeaseLost,
    OutcomeUnknown,
    QueueFailed,
    SourceEnded,
    SourceGap,
    SourceLost,
    SourceReset,
    StoredElsewhere,
    TargetBlocked,
    TargetChanged,
)
from replicator.routing.state import Phase

__all__ = ["CHECKS", "FINAL", "TRANSITIONS", "Event", "Step", "Transition", "event_of"]


class Step(StrEnum):
    """What a queue does now."""

    CHECK_TARGET = "check_target"
    """Connect to the target, see which broker answers, and read the end of the target queue."""

    CHECK_SOURCE = "check_source"
    """See which broker answers at the source, and whether the last copied message still exists there."""

    COPY = "copy"
    """Pull and send."""

    SKIP_LOSS = "skip_loss"
    """Count what the source has lost and continue after it, unless `on_gap` is `fail`."""

    STOPPED = "stopped"
    """Copy nothing more: it was drained, has reached its end, or may not send any more."""

    FAILED = "failed"
    """Copy nothing more until an operator has fixed the cause: a policy decided so."""


#: Steps that nothing follows.
FINAL: Final = frozenset({Step.STOPPED, Step.FAILED})


#: Steps that ask brokers and change nothing at them.
CHECKS: Final = frozenset({Step.CHECK_TARGET, Step.CHECK_SOURCE})


class Event(StrEnum):
    """How a step ended."""

    DONE = "done"
    """The step has done what it is for."""
    DRAINED = "drained"
    """All that was pulled is settled, and no more is to be pulled."""
    ENDED = "ended"
    """The end offset that was asked for has been reached."""
    OUTCOME_UNKNOWN = "outcome_unknown"
    """A send has no answer: it may have been stored or not."""
    STORED_ELSEWHERE = "stored_elsewhere"
    """A send was stored, but not at the end of the target queue as it was read after another sender."""
    TARGET_CHANGED = "target_changed"
    """The connection over which the target was checked is gone, or the target queue has changed."""
    TARGET_BLOCKED = "target_blocked"
    """The target takes nothing, and has stored nothing of the last send."""
    SOURCE_LOST = "source_lost"
    """The source broker cannot be pulled from now."""
    UNREACHABLE = "unreachable"
    """A broker that was asked something else did not answer, or refused."""
    SOURCE_LOSS = "source_loss"
    """The source has lost messages before they were read, or is not the queue that was copied."""
    FAILED = "failed"
    """A policy stops the queue until an operator decides."""
    LEASE_LOST = "lease_lost"
    """Another worker may own the queue by now."""


class Transition(NamedTuple):
    """What follows an event.

    Attributes:
        to: the next step.
        phase: what the queue is shown as, with the fault as the reason; None: unchanged.
        pause: whether to wait a moment first, longer each time without progress.
        clean: whether the next owner may rely on the last position: nothing of ours can still be stored; None where
            it is not decided.
        unsettled: whether a request of ours may still be waiting inside the target broker.
        unshown: whether the target has stored something of ours that its queue may not show yet.
    """

    to: Step
    phase: Phase | None = None
    pause: bool = False
    clean: bool | None = None
    unsettled: bool = False
    unshown: bool = False


_STOPPED: Final = Transition(Step.STOPPED, Phase.STOPPED, clean=True)
_UNCLEAN: Final = Transition(Step.STOPPED, Phase.STOPPED, clean=False)
_FAILED: Final = Transition(Step.FAILED, Phase.FAILED)

TRANSITIONS: Final[Mapping[tuple[Step, Event], Transition]] = {
    (Step.CHECK_TARGET, Event.DONE): Transition(Step.CHECK_SOURCE),
    (Step.CHECK_TARGET, Event.DRAINED): _UNCLEAN,
    (Step.CHECK_TARGET, Event.TARGET_BLOCKED): Transition(Step.CHECK_TARGET, Phase.WAITING, pause=True),
    (Step.CHECK_TARGET, Event.TARGET_CHANGED): Transition(Step.CHECK_TARGET, Phase.RECOVERING, pause=True),
    (Step.CHECK_TARGET, Event.UNREACHABLE): Transition(Step.CHECK_TARGET, Phase.WAITING, pause=True),
    (Step.CHECK_TARGET, Event.FAILED): _FAILED,
    (Step.CHECK_SOURCE, Event.DONE): Transition(Step.COPY, Phase.RUNNING),
    (Step.CHECK_SOURCE, Event.DRAINED): _STOPPED,
    (Step.CHECK_SOURCE, Event.SOURCE_LOST): Transition(Step.CHECK_SOURCE, Phase.WAITING, pause=True),
    (Step.CHECK_SOURCE, Event.UNREACHABLE): Transition(Step.CHECK_SOURCE, Phase.WAITING, pause=True),
    (Step.CHECK_SOURCE, Event.SOURCE_LOSS): Transition(Step.SKIP_LOSS),
    (Step.COPY, Event.DRAINED): _STOPPED,
    (Step.COPY, Event.ENDED): _STOPPED,
    (Step.COPY, Event.OUTCOME_UNKNOWN): Transition(Step.CHECK_TARGET, Phase.RECOVERING, pause=True, unsettled=True),
    (Step.COPY, Event.STORED_ELSEWHERE): Transition(Step.CHECK_TARGET, Phase.RECOVERING, unshown=True),
    (Step.COPY, Event.TARGET_CHANGED): Transition(Step.CHECK_TARGET, Phase.RECOVERING),
    (Step.COPY, Event.TARGET_BLOCKED): Transition(Step.COPY, Phase.WAITING, pause=True),
    (Step.COPY, Event.SOURCE_LOST): Transition(Step.CHECK_SOURCE, Phase.WAITING, pause=True),
    (Step.COPY, Event.UNREACHABLE): Transition(Step.CHECK_SOURCE, Phase.WAITING, pause=True),
    (Step.COPY, Event.SOURCE_LOSS): Transition(Step.SKIP_LOSS),
    (Step.COPY, Event.FAILED): _FAILED,
    (Step.COPY, Event.LEASE_LOST): _UNCLEAN,
    (Step.SKIP_LOSS, Event.DONE): Transition(Step.CHECK_SOURCE),
    (Step.SKIP_LOSS, Event.DRAINED): _STOPPED,
    (Step.SKIP_LOSS, Event.UNREACHABLE): Transition(Step.CHECK_SOURCE, Phase.WAITING, pause=True),
    (Step.SKIP_LOSS, Event.SOURCE_LOSS): _FAILED,
}

_EVENTS: Final[tuple[tuple[type[Exception], Event], ...]] = (
    (Drained, Event.DRAINED),
    (SourceEnded, Event.ENDED),
    (OutcomeUnknown, Event.OUTCOME_UNKNOWN),
    (StoredElsewhere, Event.STORED_ELSEWHERE),
    (TargetChanged, Event.TARGET_CHANGED),
    (TargetBlocked, Event.TARGET_BLOCKED),
    (SourceLost, Event.SOURCE_LOST),
    (SourceGap, Event.SOURCE_LOSS),
    (SourceReset, Event.SOURCE_LOSS),
    (QueueFailed, Event.FAILED),
    (LeaseLost, Event.LEASE_LOST),
    (ClientError, Event.UNREACHABLE),
    (ProtocolError, Event.UNREACHABLE),
)


def event_of(error: Exception) -> Event | None:
    """The event that `error` is; None: it is a bug."""
    return next((event for kind, event in _EVENTS if isinstance(error, kind)), None)
