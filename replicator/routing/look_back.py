"""Whether a source queue that was not looked at for a while is still the one that was read.

A topic that is deleted and recreated begins at offset 0 again. Once it has grown beyond the offset that is asked
for next, the broker answers a pull, also one that it has held all the while, as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replicator.aio.clock import now
from replicator.client.connection import Answer, Connection
from replicator.client.pull import PULL_TIMEOUT, Pulled, pull_fields, read
from replicator.errors import ClientError, ProtocolError, ReplicatorError
from replicator.protocol.codes import Request, Response
from replicator.routing.faults import SourceLost, SourceReset, code_of
from replicator.routing.queue_progress import Seen
from replicator.routing.state import QueueState

__all__ = ["UNWATCHED", "LookBack"]

#: Seconds in which no queue is taken to be deleted, recreated and filled again.
UNWATCHED: Final = 2.0
#: Messages a second that no broker stores in one queue: what lies further back was not written meanwhile.
_FASTEST: Final = 1_000_000


class LookBack:
    """Looks at the last message that was read, before anything is taken after a silence.

    Args:
        connection: that which the queue is read over.
        sure_at: when the source of the queue was checked, by `clock`.
    """

    def __init__(
        self, connection: Connection, state: QueueState, *, sure_at: float, clock: Callable[[], float] = now
    ) -> None:
        self._connection = connection
        self._state = state
        self._clock = clock
        self._sure_at = sure_at

    def is_needed(self, offset: int, pulled: Pulled) -> bool:
        """Whether `pulled`, the answer to a pull at `offset`, may come from another queue of that name.

        Where it says that there is nothing yet, nothing follows from it, and nothing is known by it either.
        """
        if pulled.code == Response.PULL_OFFSET_MOVED or pulled.next_offset <= offset:
            return False
        silence = self._clock() - self._sure_at
        if silence < UNWATCHED:
            self._sure_at = self._clock()
            return False
        return self._last_before(offset) is not None and offset < silence * _FASTEST

    def _last_before(self, offset: int) -> Seen | None:
        progress = self._state.progress
        last = None if progress.last is None else Seen(progress.last.source, progress.last.stored)
        known = [each for each in (last, progress.seen) if each is not None and each.offset < offset]
        return max(known, default=None)

    def ask(self, offset: int, then: Callable[[ReplicatorError | None], None]) -> None:
        """Looks, and calls `then` with None, or with why nothing may be taken at `offset`."""
        known = self._last_before(offset)
        assert known is not None  # noqa: S101 - see `is_needed`
        self._connection.request(
            Request.PULL_MESSAGE,
            pull_fields(self._state.topic, self._state.source.queue_id, known.offset, count=1),
            lambda answer: then(self._judge(offset, known, answer)),
            timeout=PULL_TIMEOUT,
        )

    def _judge(self, offset: int, known: Seen, answer: Answer) -> ReplicatorError | None:
        if isinstance(answer, ClientError):
            return SourceLost(str(answer), code=code_of(answer))
        try:
            pulled = read(answer, self._connection.address)
        except (ClientError, ProtocolError) as error:
            return SourceLost(str(error), code=code_of(error))
        found = pulled.messages[0] if pulled.messages else None
        # Without it there is no answer: retention has deleted it.
        if found is not None and found.queue_offset == known.offset and found.store_timestamp != known.stored:
            return SourceReset(offset, pulled.min_offset, pulled.max_offset)
        self._sure_at = self._clock()
        return None
