"""The source task of one queue: pipelined pulls, filter, loop check, gap check, into the channel.

Driven by answers, not by a coroutine: an idle queue costs one long poll and no task. It ends by
failing the channel; the channel's reader decides what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replicator.client.connection import Answer, Connection
from replicator.client.endpoint import Endpoint
from replicator.client.history import HistoryConnection
from replicator.client.line_window import Crossing
from replicator.client.pull import PULL_TIMEOUT, SUSPEND, Pulled, pull_fields, read
from replicator.errors import ClientError, ProtocolError, ReplicatorError
from replicator.protocol.codes import Request, Response
from replicator.protocol.message import StoredMessage
from replicator.protocol.uniform_run import offsets_of
from replicator.routing.budget import MemoryBudget
from replicator.routing.channel import Channel, Chunk
from replicator.routing.faults import SourceEnded, SourceGap, SourceLost, SourceReset, code_of
from replicator.routing.look_back import LookBack
from replicator.routing.message_filter import select
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import RouteOptions
from replicator.routing.poll_pacer import PollPacer
from replicator.routing.state import QueueState
from replicator.routing.window import Pull, PullWindow

__all__ = ["SourceTask"]

#: Bytes that an answer is expected to have until some have come.
_FIRST_ANSWER: Final = 32 * 1024
#: Bytes reserved at least for a pull.
_LEAST: Final = 2 * 1024
#: Factor by which the depth grows when the sink found the channel empty; large, since each step takes a round trip
#: to show.
_GROWTH: Final = 4
#: One part in so many of the worker's memory budget: a queue makes no more pulls while its channel holds more.
_SHARE: Final = 4


class SourceTask:
    """Reads one source queue from `offset` on, over `connection`.

    Args:
        offset: queue offset, next to read.
        from_master: whether the connection leads to the master; what a slave does not have yet is not lost.
        end: queue offset, greater than `offset`, before which it ends the channel with `SourceEnded`.
        sure_at: when it was checked, by `now()`, that the queue is the one that was read before.
        slave: read instead of the master while that asks for it. Not where brokers filter: what a slave has lost
            could not be distinguished from what the filter skips.
        pacer: of all that are read together.
    """

    def __init__(  # noqa: PLR0913 - what a queue is read with
        self,
        connection: Connection,
        channel: Channel,
        *,
        offset: int,
        state: QueueState,
        options: RouteOptions,
        budget: MemoryBudget,
        from_master: bool,
        sure_at: float,
        end: int | None = None,
        slave: Endpoint | None = None,
        pacer: PollPacer | None = None,
    ) -> None:
        at_slave = None if options.filtered else slave
        self._connection = connection if at_slave is None else HistoryConnection(connection, at_slave)
        self._channel = channel
        self._state = state
        self._queue = MessageQueue(state.topic, *state.source)
        self._options = options
        self._budget = budget
        self._from_master = from_master
        self._end = end
        self._window = PullWindow(offset, filtered=options.filtered)
        self._window.depth = min(self._window.depth, options.pulls_in_flight)
        self._look_back = LookBack(connection, state, sure_at=sure_at)
        self._per_message = self._per_offset = _FIRST_ANSWER / self._window.stride
        self._pacer = pacer or PollPacer()
        self._stopped = False
        self._waits = False

    @property
    def address(self) -> str:
        """The broker that is pulled from."""
        return self._connection.address

    def start(self) -> None:
        """Makes the first pull."""
        self._pump()

    def stop(self) -> None:
        """No more pulls; answers that are still to come are dropped."""
        self._stopped = True
        for pull in self._window.abandon():
            self._budget.release(pull.reserved)

    def pump(self) -> None:
        """To be called when the channel has become shorter."""
        if not self._stopped:
            self._pump()

    def _pump(self) -> None:
        window, channel, budget = self._window, self._channel, self._budget
        while not self._stopped and channel.size * _SHARE <= budget.limit:
            if self._waits and not window.has_hole:
                return
            pull = window.next_pull()
            if pull is None:
                return
            # A long poll reserves nothing. But while the budget is spent we make none either: 10,000 long polls,
            # each answered with a little, would exceed it.
            if (not pull.wait or budget.spent) and not self._reserve(pull):
                self._waits = True
                return
            if not self._send(pull):
                self._waits = True
                return

    def _reserve(self, pull: Pull) -> bool:
        # A pull that tries whether the broker gives more is answered with all it asks for, if so.
        most = pull.span if pull.wait or self._options.filtered else max(pull.span, pull.count)
        size = max(_LEAST, int(self._per_offset * most))
        if pull.offset == self._window.head and self._window.in_flight > 1:
            self._budget.charge(size)  # it fills a hole: what is held after it is freed only by it
        elif not self._budget.reserve(size, lambda: self._granted(pull, size)):
            return False
        pull.reserved = size
        return True

    def _granted(self, pull: Pull, size: int) -> None:
        self._waits = False
        if self._stopped:
            self._budget.release(size)
            return
        if pull.wait:
            self._budget.release(size)
        else:
            pull.reserved = size
        if self._send(pull):
            self._pump()
        else:
            self._waits = True

    def _send(self, pull: Pull) -> bool:
        """Makes the pull, at once or when the line has room; false if others have to wait for that.

        What fills a hole does not wait: what came after it is of use only then. Neither does a long poll, but for
        its turn.
        """
        if pull.wait:
            self._pacer.make(lambda: self._poll(pull))
            return True
        line, size = self._connection.line, pull.reserved
        if not size or line.has_room or (pull.offset == self._window.head and self._window.in_flight > 1):
            self._request(pull)
            return True
        line.wait(lambda: self._has_room(pull))
        return False

    def _poll(self, pull: Pull) -> None:
        if not self._stopped:
            self._request(pull)

    def _has_room(self, pull: Pull) -> None:
        self._waits = False
        if not self._stopped:
            self._request(pull)
            self._pump()

    def _request(self, pull: Pull) -> None:
        suspend = SUSPEND if pull.wait else 0.0
        crossing = self._connection.line.begin(pull.reserved)
        self._connection.request(
            Request.PULL_MESSAGE,
            pull_fields(
                self._state.topic,
                self._state.source.queue_id,
                pull.offset,
                count=pull.count,
                suspend=suspend,
                subscription=self._options.subscription,
            ),
            lambda answer: self._answered(pull, crossing, answer),
            timeout=PULL_TIMEOUT + suspend,
        )

    def _answered(self, pull: Pull, crossing: Crossing, answer: Answer) -> None:
        received = 0 if isinstance(answer, ClientError) else len(answer.body)
        self._connection.line.end(crossing, received)
        if self._stopped:
            return
        if isinstance(answer, ClientError):
            self._fail(SourceLost(str(answer), code=code_of(answer)))
            return
        try:
            pulled = read(answer, self._connection.address)
        except (ClientError, ProtocolError) as error:
            self._fail(SourceLost(str(error), code=code_of(error)))
            return
        if pulled.code == Response.PULL_RETRY_IMMEDIATELY and pulled.next_offset <= pull.offset:
            self._fail(
                SourceLost(f"{self._connection.address} makes no progress at {pull.offset}: {pulled.remark}")
            )
            return
        try:
            if self._look_back.is_needed(pull.offset, pulled):
                self._look_back.ask(pull.offset, lambda error: self._looked_back(pull, pulled, error))
            else:
                self._take(pull, pulled)
        except Exception as bug:  # noqa: BLE001 - the connection would give this pull another answer
            self._fail(bug)

    def _looked_back(self, pull: Pull, pulled: Pulled, error: ReplicatorError | None) -> None:
        if self._stopped:
            return
        if error is None:
            self._take(pull, pulled)
        else:
            self._fail(error)

    def _take(self, pull: Pull, pulled: Pulled) -> None:
        """Gives out the answer to `pull`, and those that waited for it.

        The connection calls it on the event loop, for the answers of many queues one after another: an exception
        would end the connection, and with it the pulls of all of them. So a bug goes to the sink as a failure.
        """
        if self._end is not None and self._end < pulled.max_offset and pulled.code != Response.PULL_OFFSET_MOVED:
            pulled = pulled._replace(max_offset=self._end)  # nothing after it is pulled ahead
        self._learn(pull, pulled)
        starving = not self._channel.chunks
        done = self._window.answered(pull, pulled)
        try:
            delivered = all(pull.answer is None or self._deliver(pull.offset, pull.answer) for pull in done)
        except Exception as bug:  # noqa: BLE001 - the pair of tasks ends with it
            self._fail(bug)
            delivered = False
        # Only now: what came has its place where it was reserved, and who waits in line gets what is left of that.
        self._budget.release(sum(pull.reserved for pull in done))
        if not delivered:
            return
        self._deepen(starving=starving)
        self._pump()

    def _learn(self, pull: Pull, pulled: Pulled) -> None:
        """How large messages are, and where the queue ends."""
        progress, count = self._state.progress, len(pulled.messages)
        if count:
            self._per_message += 0.25 * (pulled.size / count - self._per_message)
        progress.max_offset = pulled.max_offset
        if pulled.code == Response.PULL_OFFSET_MOVED:
            return
        covered = pulled.next_offset - pull.offset
        if covered > 0:  # a filter leaves out most, maybe
            self._per_offset += 0.25 * (pulled.size / covered - self._per_offset)
        if pulled.max_offset > progress.known_end:
            progress.known_end = pulled.max_offset

    def _deepen(self, *, starving: bool) -> None:
        """More pulls in flight while the sink waits for them, one less while it has more than it needs."""
        window = self._window
        if starving:
            if window.in_flight:
                window.depth = min(window.depth * _GROWTH, self._options.pulls_in_flight)
        elif window.depth > 2 and self._channel.size > self._enough():
            window.depth -= 1

    def _enough(self) -> float:
        """Bytes in the channel above which the sink has its next batch whole already."""
        return min(self._options.batch_bytes, self._options.batch_messages * self._per_message)

    def _deliver(self, start: int, pulled: Pulled) -> bool:
        """Puts what came into the channel; False when the task has ended instead."""
        if pulled.code == Response.PULL_OFFSET_MOVED:
            self._fail(self._moved(start, pulled))
            return False
        messages, end = pulled.messages, pulled.next_offset
        over = self._end is not None and end >= self._end
        if self._end is not None and end > self._end:
            messages, end = [m for m in messages if m.queue_offset < self._end], self._end
        missing = end - start - len(messages)
        if missing:
            if self._options.filtered:
                counters = self._state.counters
                counters.skip("filter", counters.unread(start, end, offsets_of(messages)))
            elif not self._from_master:
                self._fail(SourceLost(f"slave {self._connection.address} lacks messages that its master had"))
                return False
            else:
                self._fail(SourceGap(*_first_hole(start, end, messages)), before=messages)
                return False
        self._put(messages, end, pulled.size)
        if over:
            self._fail(SourceEnded("everything was read"))
        return not over

    def _put(self, messages: Sequence[StoredMessage], end: int, size: int) -> None:
        """Leaves out what is not to be copied and puts the rest into the channel."""
        kept, copies = select(messages, self._options, self._queue, self._state.counters)
        self._state.progress.read_to = end
        self._state.counters.read_up_to(end)
        last_stored = self._last_stored(messages, kept, end)
        self._channel.put(Chunk(kept, end, size, copies=copies, last_stored=last_stored))
        self._budget.charge(size)  # only now, since packing may fail; nobody takes it in between

    def _last_stored(self, messages: Sequence[StoredMessage], kept: Sequence[StoredMessage], end: int) -> int:
        """When the source stored the last of `messages`, where that is before `end` and may be left out; else 0.

        What is copied as it came is not looked at: it may be an uncut run, and its copies say it.
        """
        if self._options.transform is None and (kept is messages or len(kept) == len(messages)):
            return 0
        return messages[-1].store_timestamp if messages and messages[-1].queue_offset == end - 1 else 0

    def _moved(self, start: int, pulled: Pulled) -> Exception:
        if not self._from_master:  # which may have been made later than its master, and keep less
            has = "no longer has" if start < pulled.min_offset else "does not yet have"
            return SourceLost(f"slave {self._connection.address} {has} what its master had")
        if start < pulled.min_offset:
            return SourceGap(start, pulled.min_offset)
        return SourceReset(start, pulled.min_offset, pulled.max_offset)

    def _fail(self, error: Exception, *, before: Sequence[StoredMessage] | None = None) -> None:
        """Ends the task; of `before`, what comes before the hole in `error` is still delivered."""
        self.stop()
        if before and isinstance(error, SourceGap):
            ahead = [m for m in before if m.queue_offset < error.start]
            if ahead:
                self._put(ahead, error.start, sum(len(m.body) for m in ahead))
        self._channel.fail(error)


def _first_hole(start: int, end: int, messages: Sequence[StoredMessage]) -> tuple[int, int]:
    """The first run of offsets in [start, end) that no message has."""
    expected = start
    for message in messages:
        if message.queue_offset != expected:
            return expected, message.queue_offset
        expected += 1
    return expected, end
