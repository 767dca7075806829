"""What is fuzzed of what brokers say: their tables, accounts, waiting messages, and the checkpoints of POP."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, cast

from acl_sync import acl1, acl2
from replicator.client import app_clients, brokers, groups, offsets, order, pending, request_modes, topics
from replicator.client.endpoint import Endpoint
from replicator.errors import BrokerRefused, ProtocolError
from replicator.metadata.pop_checkpoints import PopCheckpoints
from replicator.protocol import properties
from replicator.protocol.codes import Request
from replicator.protocol.frame import Frame
from replicator.protocol.message import parse_messages
from replicator.routing import parked, provenance
from replicator.routing.queue_map import Queue
from replicator.routing.seal import Extent, Sealer, Seals
from tests.metadata.test_pop_checkpoints import record
from tests.protocol.test_message import stored

__all__ = ["BROKERS"]


class _Broker:
    """Answers each request with the same body, but for those in `others`."""

    address = "broker:1"

    def __init__(self, body: bytes, others: Mapping[int, bytes] | None = None) -> None:
        self._body = body
        self._others = others or {}

    async def ask(self, code: int, *_: object, **__: object) -> Frame:
        more = {"totalTopicNum": "9", "totalGroupNum": "9"}  # one more page is asked for
        return Frame(code, 0, 1, "", more, self._others.get(code, self._body))


def _read(read: Callable[[Endpoint], Coroutine[Any, Any, Any]], broker: _Broker) -> Any:
    """What is read of what `broker` says; None if that is refused, by the promised errors only."""
    reading = read(cast("Endpoint", broker))
    with contextlib.suppress(ProtocolError, BrokerRefused):
        try:
            reading.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("it waits for something else than the broker")
    return None


_CONTROLLER: Final[Mapping[int, bytes]] = {
    Request.GET_BROKER_CONFIG: b"enableControllerMode=true\nallAckInSyncStateSet=true\n"
}
_TABLES: Final = (
    topics.read_topics,
    groups.read_groups,
    offsets.read_offsets,
    request_modes.read_request_modes,
    app_clients.read_producers,
    lambda broker: app_clients.read_consumer_clients(broker, "g"),
    lambda broker: groups.consumers(broker, "g"),
    brokers.read_config,
    brokers.dispatched,
    pending.delivered_levels,
    pending.timer_counts,
)


def tables(data: bytes) -> None:
    """Each table of a broker is read, or refused as what it is."""
    for read in _TABLES:
        _read(read, _Broker(data))
    _read(brokers.confirmed, _Broker(data, _CONTROLLER))
    with contextlib.suppress(ProtocolError):
        order._read("n:1", Frame(0, 0, 1, "", {}, data))


def accounts(data: bytes) -> None:
    """Accounts of ACL 1.0, or of 2.0 with a zero and their rules: what is not understood is left as it is."""
    users, _, rules = data.partition(b"\0")
    for found in (
        _read(acl1.read, _Broker(users)),
        _read(acl2.read, _Broker(users, {Request.AUTH_LIST_ACL: rules})),
    ):
        if found is not None:
            assert {note.account for note in found.notes} <= found.unsure | {""}
            assert all(name == account.name for name, account in found.accounts.items())


_SEALER: Final = Sealer("secret", "west")
_PLACE: Final = parked.Place("parked", Queue("a", 0), 7)


def waiting(data: bytes) -> None:
    """A message that waits at its broker, as properties, 0xff and a body, and what it is once it is parked."""
    raw, _, content = data.partition(b"\xff")
    (message,) = parse_messages(stored(properties=raw[: properties.MAX_PROPERTIES], body=content))
    delays = parked.parse_delays(content.decode(errors="replace"))
    for level in (None, 1, 18):
        parked.due_of(message, level, delays)
    parked.renewed_waiting([message])
    parked.recalled(message.properties)
    parked.released(message.properties)
    for kind in parked.KINDS.values():
        found = parked.read_parked(parked.with_due(message, 7), kind, _PLACE)
        if found is not None:
            assert (found.due, found.place) == (7, _PLACE)
            assert isinstance(found.put_back, bool)
            assert all(found.recalls)
            for send in (parked.as_released, parked.as_new):
                assert parked.released(send(message.properties, found.id)) == found.id
    _seals(message.properties)
    source = provenance.read(message.properties)
    if source is not None:
        assert not Seals(_SEALER, "orders").prove(message, source)


def _seals(raw: bytes) -> None:
    """Who does not have the secret seals nothing; what has it is read as it was written."""
    assert _SEALER.extent("orders", raw) is None
    source = properties.find(raw, provenance.SOURCE)
    if source is not None:
        extent = Extent(9, 2, 1700000000000)
        assert _SEALER.extent("orders", _SEALER.seal("orders", source, extent) + raw) == extent


def checkpoints(data: bytes) -> None:
    """Records of POP, a tag and JSON each, with a zero between: what is held is what the deliveries have."""
    log = PopCheckpoints("a")
    for each in data.split(b"\0"):
        tag, _, body = each.partition(b" ")
        message = record(tag.decode(errors="replace"), body)
        log.read(message)
        if tag == b"revived":
            log.revived([message])
    for held in log.in_flight().values():
        assert held.messages > 0


_ACL1: Final = (
    b'{"globalWhiteAddrs":["10.0.0.*"],"plainAccessConfigs":[{"accessKey":"orders","secretKey":"12345678","admin":'
    b'false,"defaultTopicPerm":"DENY","topicPerms":["t=PUB|SUB"],"groupPerms":["g=SUB"]}]}'
)
_ACL2: Final = (
    b'[{"username":"orders","password":"12345678","userType":"Normal","userStatus":"enable"}]\0'
    b'[{"subject":"User:orders","policies":[{"policyType":"Custom","entries":[{"resource":"Topic:t*",'
    b'"actions":["Pub","Sub"],"sourceIps":["10.0.0.1"],"decision":"Allow"}]}]}]'
)
_COPIED: Final = b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/a/1/5/9\x02"
_DELAYED: Final = (
    b"REAL_TOPIC\x01orders\x02REAL_QID\x013\x02DELAY\x012\x02UNIQ_KEY\x010A\x02%b__RPL_SEAL\x019/2/9/0123456789abcdef\x02"
    b"\xff1s 5m 2h 1d"
) % _COPIED
_TIMER: Final = (
    b"REAL_TOPIC\x01%%RETRY%%g\x02REAL_QID\x010\x02TIMER_OUT_MS\x01170\x02TIMER_ROLL_TIMES\x012\x02UNIQ_KEY\x010B\x02%b"
    b"__RPL_RELEASED\x01east/timer/a/1/5/9\x02\xffbody"
) % _COPIED
_HELD: Final = (
    b'ck {"bm":0,"bn":"a","c":"g","it":60000,"pt":5000,"q":3,"t":"t","d":[0,1,4],"n":3,"so":100}\0'
    b'ack {"ao":100,"bn":"a","c":"g","pt":5000,"q":3,"so":100,"t":"t"}\0'
    b'bAck {"ao":-1,"aol":[101],"bn":"a","c":"g","pt":5000,"q":3,"so":100,"t":"t"}'
)

#: By its name, what a target runs, and well-formed inputs.
BROKERS: Final[Mapping[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]]] = {
    "tables": (
        tables,
        (
            b'{"topicConfigTable":{"t":{"readQueueNums":4,"writeQueueNums":4,"perm":6}},"dataVersion":{"counter":1}}',
            b'{"subscriptionGroupTable":{"g":{"groupName":"g"}},"forbiddenTable":{"g":{"t":4}},"dataVersion":{}}',
            b'{"offsetTable":{"t@g":{0:7,1:9},"t@g@broadcast":{0:1}}}',
            b'{"messageRequestModeMap":{"t":{"g":{"mode":"POP","popShareQueueNum":1}}}}',
            b'{"data":{"p":[{"remoteIP":"/10.0.0.1:9"}]}}',
            b'{"connectionSet":[{"clientAddr":"a:9"}],"subscriptionTable":{"t":{}},"messageModel":"CLUSTERING"}',
            b'{"consumerIdList":["10.0.0.1@9"]}',
            b"maxMessageSize=4194304\nbrokerName=a\nbrokerRole=SLAVE\n",
            b'{"table":{"commitLogMaxOffset":"9","dispatchBehindBytes":"0"}}',
            b'{"haConnectionInfo":[{"slaveAckOffset":7,"inSync":true}],"inSyncSlaveNums":1,"masterCommitLogMaxOffset":9}',
            b'{"timingCount":{"t":{"count":3,"timeStamp":9}},"offsetTable":{1:5}}',
            b'{"table":{"t":"a:8;b:8"}}',
        ),
    ),
    "accounts": (accounts, (_ACL1, _ACL2)),
    "parked": (waiting, (_DELAYED, _TIMER, b"REAL_TOPIC\x01orders\x02TIMER_DEL_UNIQKEY\x010B\x02\xff")),
    "checkpoints": (
        checkpoints,
        (
            _HELD,
            b'ck {"c":"g","it":9,"pt":5,"q":3,"t":"t","n":3,"so":1}\0revived {"c":"g","pt":5,"q":3,"t":"t","so":1}',
        ),
    ),
}
