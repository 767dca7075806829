"""The check of a target queue, made once for each connection before anything is sent over it.

Where the queue ends, and whether it still has what it has acknowledged: a broker that comes back
with an older store, or a replica that was promoted, may have lost its tail. What is missing is copied again before
anything new.
"""

from __future__ import annotations

import asyncio
from functools import partial

from structlog.stdlib import BoundLogger

from replicator.aio.clock import now
from replicator.client.connection import Connection
from replicator.client.endpoint import Endpoint
from replicator.client.pull import message_at, pull
from replicator.errors import ClientError
from replicator.routing import provenance
from replicator.routing.faults import QueueFailed, TargetBlocked
from replicator.routing.fork import last_common
from replicator.routing.provenance import Provenance
from replicator.routing.recovery import CopyRecord, Tail, first_copy, read_on, read_tail
from replicator.routing.shared import Shared
from replicator.routing.source_side import SourceSide
from replicator.routing.state import Phase, QueueState

__all__ = ["TargetCheck"]


class TargetCheck:
    """Checks the target queue `topic` of `state`, and makes the state agree with what the queue has.

    Attributes:
        connection: the one over which the target was checked last; sends go over no other.
        suspicious: another sender's request may still be waiting inside the broker, so that the first answer
            decides whether the tail that was read is the whole one.
        unsettled: a request of ours, or of the last owner, may still be stored.
        unshown: the target has stored a request of ours that the queue may not show yet.
    """

    def __init__(
        self,
        state: QueueState,
        shared: Shared,
        topic: str,
        source: SourceSide,
        log: BoundLogger,
    ) -> None:
        self.connection: Connection | None = None
        self.suspicious = False
        self.unsettled = not state.progress.clean
        self.unshown = False
        state.progress.clean = False  # for the next owner: from now on we may send, and this is saved at any moment
        self._state = state
        self._shared = shared
        self._topic = topic
        self._source = source
        self._log = log

    def place(self) -> tuple[Endpoint, str, int]:
        """The queue's master, topic and number.

        Raises:
            Unreachable: the broker has no master now.
        """
        queue = self._state.target
        return self._shared.target.master(queue.broker), self._topic, queue.queue_id

    def is_ours(self, found: Provenance) -> bool:
        """Whether a message with that provenance was copied from the same source queue."""
        source = self._state.source
        return (
            found.cluster == self._shared.options.identity.source
            and found.broker == source.broker
            and found.queue_id == source.queue_id
        )

    async def run(self) -> None:
        """Checks the target.

        Raises:
            Unreachable: no broker answers, or another one than expected.
            TargetBlocked: by `on_target_loss=wait`, or the broker does not show all that it has stored.
            QueueFailed: by `on_target_loss=fail`.
            ClientError: see there.
        """
        state, shared = self._state, self._shared
        writer = shared.target.writer(state.target.broker)
        async with shared.recovering.at("target", state.target.broker):
            connection = await writer.connection()
            state.set_phase(Phase.RECOVERING, state.reason)
            tail = await self._read()
        if self.unsettled:
            await self._settle(tail)
        if self.unshown:
            await self._read_on(tail)
        if tail.unsealed:
            self._doubt(tail)
        known = state.progress.last
        if known is not None and not tail.known_holds:
            await self._lost(known, tail)
        elif not self._knows_ours() and not tail.recreated:
            await self._refuse_jump(known, tail)
        self._take(tail)
        self.suspicious |= self.unsettled
        self.unsettled = self.unshown = False
        self.connection = connection
        self._log.debug("target checked", target_end=tail.end, copies=len(tail.copies))

    async def _read(self) -> Tail:
        """The tail of the queue; read again, once all is shown, where what was acknowledged is not to be seen."""
        progress, place = self._state.progress, self.place()
        known = progress.last
        read = partial(
            read_tail,
            *place,
            mine=self.is_ours,
            known=known,
            floor=progress.target_floor,
            counted=progress.target_end or 0,
            sealer=self._shared.options.sealer,
        )
        tail = await read()
        shorter = tail.end < progress.target_floor
        if shorter or (known is not None and not tail.known_holds):
            await self._shared.barrier.caught_up(place[0])
            tail = await read()
        return tail

    async def _settle(self, tail: Tail) -> None:
        """The last request of the previous owner may still be waiting inside the broker."""
        shared = self._shared
        if shared.options.settle_timeout is None:
            return
        await asyncio.sleep(shared.options.settle_timeout)
        await self._read_on(tail)

    async def _read_on(self, tail: Tail) -> None:
        """Once the broker shows all that it has stored."""
        shared, place = self._shared, self.place()
        async with shared.recovering.at("target", self._state.target.broker):
            await shared.barrier.caught_up(place[0])
            await read_on(*place, tail, mine=self.is_ours)

    def _doubt(self, tail: Tail) -> None:
        """Others wrote what claims to be copies, or we did before the group had its secret.

        Raises:
            QueueFailed: nothing else says how far this queue is.
        """
        what = (
            f"{tail.unsealed} messages in the target queue say that they are copies,"
            " and no worker of this group has sealed them"
        )
        if self._state.progress.position is None and tail.last is None:
            if self._shared.hears_other_secret():
                raise QueueFailed(
                    f"{what}; workers of this group are heard that sign with another secret, or with none: these"
                    " copy",
                    hint="set worker_group_secret_file of all workers to the same secret, and restart those that"
                    " had another; do not set worker_group_accept_unsigned",
                )
            raise QueueFailed(
                f"{what}; nothing else says what was copied",
                hint="if they are right, start the group with worker_group_accept_unsigned once, so that it"
                " continues after them; if not, delete the topic at the target",
            )
        self._log.error("unsealed copies ignored", count=tail.unsealed)

    def _knows_ours(self) -> bool:
        """Whether copies are believed by their seals alone."""
        sealer = self._shared.options.sealer
        return sealer is not None and not sealer.accepts_unsealed

    async def _refuse_jump(self, known: CopyRecord | None, tail: Tail) -> None:
        """Where no seal is needed, others may have written a copy that is ahead of what was copied.

        A source that is away does not keep the target from being checked: its end counts in a failover.

        Raises:
            QueueFailed: the source has a message between two copies that should have been copied.
        """
        begin = None if known is None else max(known.source + 1, self._state.progress.position or 0)
        for copy in tail.copies:
            if begin is not None and copy.source > begin:
                try:
                    skipped = await self._source.left_out(begin, copy)
                except ClientError as error:
                    self._log.warning("source not asked what copies have left out", reason=str(error))
                    return
                if skipped is not None:
                    raise QueueFailed(
                        f"the target queue has a copy of source offset {copy.source}, and none of {skipped}, which"
                        " the source has and the route copies: somebody else has written it, or the target has lost"
                        " messages, or the route's filter was changed while it copied",
                        hint=f"{self._way_to_seals()} the group continues at source offset {begin}, and"
                        " believes only copies that it has sealed",
                    )
            begin = max(begin or 0, copy.source + 1)

    def _way_to_seals(self) -> str:
        secret = self._shared.options.sealer is not None
        return "without worker_group_accept_unsigned" if secret else "with worker_group_secret_file"

    async def _lost(self, known: CopyRecord, tail: Tail) -> None:
        """The target has lost what it had acknowledged: policy decides.

        Where a later copy was stored before that was seen, what lies before it cannot be copied again in order: a
        broker that becomes a slave and the master again may lose its tail without a connection breaking.

        Raises:
            TargetBlocked, QueueFailed: by policy.
            ClientError: see there.
        """
        state, policy, last = self._state, self._shared.options.on_target_loss, tail.last
        overtaken = last is not None and last.source > known.source
        if overtaken:
            held = await last_common(state.progress.offsets, self._holds)
            last = None if held is None else CopyRecord(held, 0, 0)
        first, count = state.lose_at_target(last)
        what = (
            f"the target has lost {count} messages that it had acknowledged,"
            f" source offsets {first} to {known.source}"
        )
        if policy == "wait":
            raise TargetBlocked(
                what, hint="on_target_loss=wait: copying continues once they are at the target again"
            )
        if policy == "fail":
            raise QueueFailed(what, hint="on_target_loss=resend copies them again")
        self._log.error(
            "target lost messages", count=count, first=first, last=known.source, copied_again=not overtaken
        )
        state.copy_again(first)

    async def _holds(self, source: int, target: int) -> bool | None:
        """Whether the target queue still has the copy of the source offset `source`; None: retention deleted it."""
        pulled = await pull(*self.place(), target, count=1)
        if target < pulled.min_offset:
            return None
        message = next(iter(pulled.messages), None)
        found = None if message is None else provenance.of(message, self._topic)
        return found is not None and self.is_ours(found) and found.offset == source

    def _take(self, tail: Tail) -> None:
        """Makes the state agree with what the target has."""
        progress, counters = self._state.progress, self._state.counters
        progress.target_end = tail.end
        if tail.end < progress.target_floor:  # what the source has no longer cannot be copied again
            lost = progress.target_floor - tail.end
            # Which of them others wrote, or retention had deleted before, nobody knows any more.
            self._log.error("target lost messages stored before the source reset", up_to=lost, target_end=tail.end)
            counters.target_lost += lost
            progress.target_floor = tail.end
        counters.foreign += tail.foreign
        counters.duplicates += tail.duplicates
        if tail.duplicates:
            self._log.error("duplicates at the target", count=tail.duplicates)
        if tail.recreated:
            progress.offsets.clear()
            progress.position = progress.seen = None
            counters.skipped_to = 0
            progress.target_floor = tail.copies[0].target
            self._state.audit.restart()
        known = progress.last
        for copy in tail.copies:
            if known is not None and copy.source <= known.source:
                continue
            progress.offsets.add(copy.source, copy.target, 1)
            if progress.position is not None and copy.source >= progress.position:
                counters.copied_before += 1  # its acknowledgement was never received
        if tail.last is not None:
            progress.position = max(progress.position or 0, tail.last.source + 1)
            progress.store_timestamp = tail.last.stored
        self._state.count_left_out()  # with a batch whose acknowledgement was never received
        if self._state.audit.share:
            self._state.audit.found(progress.offsets, progress.position or 0, tail.end, now())

    async def copy_at(self, target: int) -> CopyRecord | None:
        """Our copy at the target offset `target`; None: something else is there, or nothing any more."""
        message = await message_at(*self.place(), target)
        found = None if message is None else provenance.of(message, self._topic)
        if found is None or not self.is_ours(found):
            return None
        return CopyRecord(found.offset, found.stored, target)

    async def first_copied(self) -> int | None:
        """The source offset of the oldest copy that the target still has."""
        return await first_copy(*self.place(), mine=self.is_ours, floor=self._state.progress.target_floor)
