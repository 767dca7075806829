"""How a simulated broker is read: pulls (11) that may wait, and the ends of queues (29, 30, 31)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame
from tests.simulation.kernel import Urgency
from tests.simulation.remoting import Answer, RemotingSession
from tests.simulation.store import StoredQueue

if TYPE_CHECKING:
    from tests.simulation.broker import Broker

__all__ = ["Pulls"]

#: What one pull gets at most: messages, and bytes.
_MESSAGES: Final = 32
_BYTES: Final = 256 * 1024
_READABLE: Final = 4
_SUSPEND: Final = 2


class _Waiting:
    """A pull that waits for a message."""

    __slots__ = ("over", "request", "session")

    def __init__(self, session: RemotingSession, request: Frame) -> None:
        self.session = session
        self.request = request
        self.over = False


class Pulls:
    """Of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: defaultdict[tuple[str, int], list[_Waiting]] = defaultdict(list)

    def serve(self, session: RemotingSession, request: Frame) -> None:
        """Answers now, or when there is a message or it has waited long enough."""
        answer = self._pull(request)
        if answer.code != Response.PULL_NOT_FOUND or not int(request.fields["sysFlag"] or 0) & _SUSPEND:
            session.answer(request, answer)
            return
        waiting = _Waiting(session, request)
        self._waiting[request.fields["topic"] or "", request.number("queueId")].append(waiting)
        kernel = self._broker.kernel
        seconds = request.number("suspendTimeoutMillis") / 1000
        kernel.plan(seconds, lambda: self._end(waiting), self._broker.process, Urgency.TIMER)

    def _end(self, waiting: _Waiting) -> None:
        if not waiting.over:
            waiting.over = True
            waiting.session.answer(waiting.request, self._pull(waiting.request))

    def wake(self, topic: str, queue_id: int) -> None:
        """There is more in a queue."""
        for waiting in self._waiting.pop((topic, queue_id), ()):
            self._end(waiting)

    def _pull(self, asked: Frame) -> Answer:
        broker, topic, queue_id = self._broker, asked.fields["topic"] or "", asked.number("queueId")
        settings = broker.store.topics.get(topic)
        if settings is None:
            return Answer(Response.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please! \nSee …")
        if not settings.perm & _READABLE:
            fields = {} if broker.version.is_old else {"forbiddenType": "3"}
            return Answer(Response.NO_PERMISSION, f"the topic[{topic}] pulling message is forbidden", fields)
        if queue_id >= settings.read_queues:
            return Answer(
                broker.version.no_queue,
                f"queueId[{queue_id}] is illegal, topic:[{topic}]"
                f" topicConfig.readQueueNums:[{settings.read_queues}] consumer:[/127.0.0.1:50000]",
            )
        queue = broker.store.queues.get((topic, queue_id), StoredQueue())
        return self._found(queue, asked.number("queueOffset"), asked.number("maxMsgNums"))

    def _found(self, queue: StoredQueue, offset: int, count: int) -> Answer:
        code, remark, go_on, body = Response.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset, b""
        if queue.shown == 0:
            remark, go_on = "NO_MESSAGE_IN_QUEUE", 0
            code = Response.PULL_OFFSET_MOVED if offset else code
        elif offset < queue.first:
            code, remark, go_on = Response.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", queue.first
        elif offset > queue.shown:
            code, remark, go_on = Response.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", queue.shown
        elif offset < queue.shown:
            taken: list[bytes] = []
            size = 0
            for each in queue.messages[
                offset - queue.first : min(queue.shown - queue.first, offset - queue.first + min(count, _MESSAGES))
            ]:
                if taken and size + len(each) > _BYTES:
                    break
                taken.append(each)
                size += len(each)
            code, remark, go_on, body = Response.SUCCESS, "FOUND", offset + len(taken), b"".join(taken)
        fields = {
            "nextBeginOffset": str(go_on),
            "minOffset": str(min(queue.first, queue.shown)),
            "maxOffset": str(queue.shown),
            "suggestWhichBrokerId": "0",
        }
        if not self._broker.version.is_old:
            fields |= {"groupSysFlag": "0", "topicSysFlag": "0"}
        return Answer(code, remark, fields, body)

    def _queue(self, asked: Frame) -> StoredQueue:
        key = asked.fields["topic"] or "", asked.number("queueId")
        return self._broker.store.queues.get(key, StoredQueue())

    def max_offset(self, asked: Frame) -> Answer:
        return Answer(fields={"offset": str(self._queue(asked).shown)})

    def min_offset(self, asked: Frame) -> Answer:
        return Answer(fields={"offset": str(self._queue(asked).first)})

    def offset_at(self, asked: Frame) -> Answer:
        """Where something was stored at that time or later; past the end 4.9 gives the last message."""
        queue = self._queue(asked)
        shown = queue.stored[: queue.shown - queue.first]
        at = queue.first + bisect_left(shown, asked.number("timestamp"))
        if self._broker.version.is_old and shown:
            at = min(at, queue.shown - 1)
        return Answer(fields={"offset": str(at)})
