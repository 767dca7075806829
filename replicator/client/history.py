"""Pulls of what is no longer in a broker's memory: at its slave, where the master asks for that.

A master with `slaveReadEnable=true` suggests a slave with each answer that it had to read from its disk
(`accessMessageInMemoryMaxRatio`): reading history pushes what live consumers need out of its page cache.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from replicator.client.connection import Answer, Connection, OnAnswer
from replicator.client.endpoint import Endpoint
from replicator.client.pull import PULL_TIMEOUT, pull_fields, read
from replicator.client.refused import code_in, remark_in
from replicator.errors import ClientError, ProtocolError
from replicator.observe.logging import get_logger
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from replicator.protocol.uniform_run import offsets_of

__all__ = ["HistoryConnection"]

#: Seconds for which a slave is left alone that lacked something or did not answer.
_REST: Final = 30.0

log = get_logger(__name__)


class HistoryConnection:
    """Pulls one queue as over `master`, a connection to the master, does, where no filter leaves anything out.

    Once the master suggests it, and `slave` has the very bytes that the master has, the slave is asked, to the end:
    where it has more memory than its master, the two would send everybody to and fro. What it does not answer whole
    the master is asked for: a slave may be behind, and its retention may have taken what the master still has.
    """

    def __init__(self, master: Connection, slave: Endpoint) -> None:
        self.address = master.address
        self.line = master.line  # what the slave sends crosses the same distance
        self._master = master
        self._endpoint = slave
        self._slave: Connection | None = None
        self._comparing: asyncio.Task[None] | None = None
        #: The offset from which on the slave has what the master has.
        self._same_from = 0
        self._not_before = -math.inf

    def request(self, code: int, fields: Mapping[str, str], on_answer: OnAnswer, *, timeout: float) -> None:
        """As that of `Connection`; where the slave fails, the master has as many seconds again."""
        slave, place = self._slave, _Place.of(fields)
        waits = fields["suspendTimeoutMillis"] != "0"  # for what the slave may get later than the master
        if slave is None or waits or place.offset < self._same_from:
            self._ask_master(code, fields, on_answer, timeout)
            return

        given = False

        def answered(answer: Answer) -> None:
            nonlocal given
            if given or (isinstance(answer, Frame) and _is_whole(answer, place.offset)):
                given = True  # who fails on it is told that, and not given it once more by the master
                on_answer(answer)
                return
            if self._slave is slave:  # else another pull has found it out
                self._slave = None
                self._rest(place, answer)
            self._ask_master(code, fields, on_answer, timeout)

        slave.request(code, fields, answered, timeout=timeout)

    def _ask_master(self, code: int, fields: Mapping[str, str], on_answer: OnAnswer, timeout: float) -> None:
        def answered(answer: Answer) -> None:
            if isinstance(answer, Frame) and _suggests_slave(answer):
                self._consider_slave(_Place.of(fields), answer.body)
            on_answer(answer)

        self._master.request(code, fields, answered, timeout=timeout)

    def _consider_slave(self, place: _Place, known: bytes) -> None:
        now = asyncio.get_running_loop().time()
        comparing = self._comparing is not None and not self._comparing.done()
        if self._slave is None and not comparing and now >= self._not_before:
            self._comparing = asyncio.create_task(self._compare(place, known))

    async def _compare(self, place: _Place, known: bytes) -> None:
        """Goes over to the slave if it has the first message of `known`.

        A slave may go on showing messages of a recreated topic, until the new one has grown past them.
        """
        try:
            slave = await self._endpoint.connection()
            answer: Answer = await slave.invoke(
                Request.PULL_MESSAGE, pull_fields(*place, count=1), timeout=PULL_TIMEOUT
            )
        except ClientError as error:
            answer = error
        if isinstance(answer, Frame) and answer.code == Response.SUCCESS and known.startswith(answer.body):
            self._slave, self._same_from = slave, place.offset
            log.debug("history is read from the slave", slave=slave.address, **place._asdict())
        else:
            self._rest(place, answer)

    def _rest(self, place: _Place, answer: Answer) -> None:
        self._not_before = asyncio.get_running_loop().time() + _REST
        reason = f"{code_in(answer)}: {remark_in(answer)}" if isinstance(answer, Frame) else str(answer)
        log.info("history is read from the master", slave=self._endpoint.address, reason=reason, **place._asdict())


class _Place(NamedTuple):
    topic: str
    queue_id: int
    offset: int

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> _Place:
        return cls(fields["topic"], int(fields["queueId"]), int(fields["queueOffset"]))


def _suggests_slave(answer: Frame) -> bool:
    return answer.code == Response.SUCCESS and answer.fields.get("suggestWhichBrokerId") not in (None, "0")


def _is_whole(answer: Frame, offset: int) -> bool:
    """Whether it has all messages from `offset` to where it says to go on."""
    try:
        pulled = read(answer, "")
    except (ClientError, ProtocolError):
        return False
    offsets = offsets_of(pulled.messages)
    # The number comes first: where to go on is only what the broker says, and may be any number.
    is_all = len(offsets) == pulled.next_offset - offset
    return bool(offsets) and is_all and list(offsets) == list(range(offset, pulled.next_offset))
