"""A broker in memory that speaks the remoting protocol as real ones of 4.9.7, 5.3.3 and 5.5.0 do.

A request is executed some time after it has come, in no order with others of its connection; what is stored is
shown to readers some time later. `test_conversation.py` holds its answers to those of real brokers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from tests.simulation.kernel import Kernel, Process, Urgency
from tests.simulation.network import Host, Wire
from tests.simulation.pulls import Pulls
from tests.simulation.remoting import Answer, RemotingSession
from tests.simulation.sends import Sends
from tests.simulation.store import Store, TopicSettings
from tests.simulation.topic_table import change_topic, topic_table
from tests.simulation.versions import VERSIONS

__all__ = ["LISTEN_PORT", "Broker"]

LISTEN_PORT: Final = 10911
#: Requests that the VIP port does not serve.
_NOT_VIP: Final = frozenset({Request.PULL_MESSAGE})
_SENDS: Final = frozenset({Request.SEND_MESSAGE_V2, Request.SEND_BATCH_MESSAGE})
#: Seconds after its start in which 4.9 cannot say how it is.
_SPEECHLESS: Final = 1.0
_UNSET: Final = "not set any response code"


class Broker:
    """The broker `name` of `cluster`, as the process on `host`; its disk is `store`.

    `busy` lets it refuse all sends, `swallow` is the number of sends whose answers get lost with their connections,
    `lag` how many seconds it takes at most until it shows what it has stored, and `slow` how many it takes at most
    to execute a request. `on_stored` is called with topic, queue, offset and how many messages were stored there.
    """

    def __init__(self, kernel: Kernel, host: Host, *, name: str, cluster: str, version: str, store: Store) -> None:
        self.kernel = kernel
        self.host = host
        self.name = name
        self.cluster = cluster
        self.version = VERSIONS[version]
        self.store = store
        self.busy = False
        self.swallow = 0
        self.lag = 0.005
        self.slow = 0.002
        self.executed = 0
        self.on_stored: Callable[[str, int, int, int], None] = lambda *_: None
        self._started = kernel.now
        self._dispatched = store.size
        self._pending: deque[tuple[str, int, int, int]] = deque()
        self._last_shown = 0.0
        self.pulls = Pulls(self)
        self._sends = Sends(self)
        store.show_all()
        host.listening = {
            LISTEN_PORT: lambda wire: self._accept(wire, vip=False),
            LISTEN_PORT - 2: lambda wire: self._accept(wire, vip=True),
        }
        self._handlers: dict[int, Callable[[Frame], Answer]] = {
            Request.SEND_BATCH_MESSAGE: self._sends.batch,
            Request.SEND_MESSAGE_V2: self._sends.single,
            Request.GET_MAX_OFFSET: self.pulls.max_offset,
            Request.GET_MIN_OFFSET: self.pulls.min_offset,
            Request.SEARCH_OFFSET_BY_TIMESTAMP: self.pulls.offset_at,
            Request.GET_BROKER_CONFIG: self._settings,
            Request.GET_BROKER_RUNTIME_INFO: self._runtime,
            Request.GET_ALL_TOPIC_CONFIG: lambda _: topic_table(self.store, self.version),
            Request.UPDATE_AND_CREATE_TOPIC: lambda asked: change_topic(self.store, self.version, asked),
            Request.DELETE_TOPIC_IN_BROKER: self._delete_topic,
        }

    @property
    def process(self) -> Process:
        return self.host.process

    @property
    def address(self) -> str:
        return f"{self.host.name}:{LISTEN_PORT}"

    def clock(self) -> int:
        """What it writes as the time of storing (ms)."""
        return int(self.process.wall() * 1000)

    # Requests.

    def _accept(self, wire: Wire, *, vip: bool) -> RemotingSession:
        return RemotingSession(wire, lambda session, request: self._come(session, request, vip=vip))

    def _come(self, session: RemotingSession, request: Frame, *, vip: bool) -> None:
        chance = self.kernel.random.random()
        self.kernel.plan(
            chance * chance * chance * self.slow,
            lambda: self._execute(session, request, vip=vip),
            self.process,
            Urgency.READY,
        )

    def _execute(self, session: RemotingSession, request: Frame, *, vip: bool) -> None:
        self.executed += 1
        if request.code == Request.PULL_MESSAGE and not vip:
            self.pulls.serve(session, request)
            return
        handler = None if vip and request.code in _NOT_VIP else self._handlers.get(request.code)
        if handler is None:
            remark = f" request type {request.code} not supported"
            session.answer(request, Answer(Response.REQUEST_CODE_NOT_SUPPORTED, remark))
            return
        answer = handler(request)
        if request.code in _SENDS:
            if not (answer.remark or "").startswith("java."):  # what was thrown says less
                answer.fields = {**answer.fields, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
            if self.swallow and answer.code == Response.SUCCESS:
                self.swallow -= 1
                session.wire.reset(answers=True)
                return
        session.answer(request, answer)

    def _settings(self, _: Frame) -> Answer:
        settings = {
            "brokerName": self.name,
            "brokerClusterName": self.cluster,
            "brokerRole": "ASYNC_MASTER",
            "maxMessageSize": "4194304",
        }
        return Answer(body="".join(f"{name}={value}\n" for name, value in settings.items()).encode())

    def _runtime(self, _: Frame) -> Answer:
        if self.version.is_old and self.kernel.now - self._started < _SPEECHLESS:
            remark = "java.util.NoSuchElementException, java.base/java.util.LinkedList.getLast(Unknown Source)"
            return Answer(Response.SYSTEM_ERROR, remark)
        table = {
            "commitLogMaxOffset": str(self.store.size),
            "dispatchBehindBytes": str(self.store.size - self._dispatched),
        }
        return Answer(body=msgspec.json.encode({"table": table}))

    def _delete_topic(self, asked: Frame) -> Answer:
        topic = asked.fields["topic"] or ""
        self.store.delete_topic(topic)
        self._pending = deque(each for each in self._pending if each[0] != topic)
        return Answer()

    # What is stored is shown later, in the order of the commit log.

    def stored(self, topic: str, queue_id: int, offset: int, count: int) -> None:
        """To be called after `count` messages were stored from `offset` on."""
        self.on_stored(topic, queue_id, offset, count)
        self._pending.append((topic, queue_id, offset + count, self.store.size))
        chance = self.kernel.random.random()
        at = max(self._last_shown, self.kernel.now + chance * chance * self.lag)
        self._last_shown = at
        self.kernel.plan(at - self.kernel.now, self._show_next, self.process, Urgency.TIMER)

    def _show_next(self) -> None:
        if not self._pending:
            return
        topic, queue_id, end, size = self._pending.popleft()
        self._dispatched = max(self._dispatched, size)
        self.store.queue(topic, queue_id).shown = end
        self.pulls.wake(topic, queue_id)

    # Seen from outside.

    def make_topic(self, name: str, queues: int, *, perm: int = 6) -> None:
        self.store.change_topic(name, TopicSettings(queues, queues, perm))
