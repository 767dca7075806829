"""What is fuzzed: each target takes any bytes, and raises only where the code under test breaks its promise."""

from __future__ import annotations

import contextlib
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from replicator.client import pull
from replicator.client.cluster import _read_topology
from replicator.client.nameservers import NoBrokers
from replicator.client.topics import _topic
from replicator.errors import BrokerRefused, ProtocolError, StartupError
from replicator.group.freshness import Freshness, ReplayWindow
from replicator.group.signature import Forged, Signer
from replicator.group.wire import Author, NewerForm, Unreadable, group_of, read_message, write_records
from replicator.protocol import compression, fastjson, properties
from replicator.protocol.frame import Frame, FrameDecoder, encode_answer, encode_request
from replicator.protocol.message import parse_messages
from replicator.protocol.uniform_run import UniformRun, messages_in, sent_as
from replicator.routing import provenance
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.spark.resident.messages import Drain, Grant, Hello, Report, read_task_message, read_worker_message
from replicator.state import state_file
from replicator.state import store as store_module
from replicator.state.record import Kind, Record, Version
from replicator.state.record_types import fit_all
from replicator.state.store import Store
from tests.fuzz.brokers import BROKERS
from tests.fuzz.files import FILES
from tests.fuzz.records import RECORDS
from tests.protocol.test_message import stored
from tests.support.records import VALUES

__all__ = ["TARGETS", "Target"]

#: Seconds since 1970 that bound the versions of records.
_NOW: Final = 2e9


class Target(NamedTuple):
    """`run` takes the bytes; `seeds` are well-formed ones to begin with."""

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def frames(data: bytes) -> None:
    """A connection's stream, in pieces of sizes that its first byte chooses, gives the same frames as in one."""
    step = data[0] + 1 if data else 1
    assert _frames(data[1:], step) == _frames(data[1:], len(data))


def _frames(data: bytes, step: int) -> list[object]:
    decoder = FrameDecoder(max_frame=1 << 20)
    found: list[object] = []
    try:
        while data:
            room = decoder.room()
            size = min(step, len(room), len(data))
            room[:size] = data[:size]
            data = data[size:]
            found += decoder.take(size)
            for frame in found:
                with contextlib.suppress(ProtocolError):
                    assert isinstance(frame, Frame)
                    frame.number("queueOffset")
    except ProtocolError:
        return ["refused"]
    return found


def messages(data: bytes) -> None:
    """Compiled code reads what Python reads, and makes of it what Python makes."""
    try:
        expected = parse_messages(data)
    except ProtocolError:
        expected = None
    try:
        found = messages_in(data)
    except ProtocolError:
        found = None
    assert (found is None) == (expected is None)
    if found is None or expected is None:
        return
    assert list(found) == expected
    provenance.among(found)
    if isinstance(found, UniformRun):
        assert sent_as(found) == sent_as(expected)
        found.entries(b"__RPL_SOURCE\x01e/b/0/", more=91, limit=1 << 20)
    for message in expected:
        provenance.read(message.properties)
        properties.decode(message.properties)
        properties.strip([message.properties])


def pulled(data: bytes) -> None:
    """The answer to a pull: its head as JSON, a zero, its body."""
    head, _, body = data.partition(b"\0")
    try:
        fields = fastjson.parse(head)
    except ProtocolError:
        return
    if not isinstance(fields, dict):
        return
    code = int(fields.get("code") or 0) if isinstance(fields.get("code"), int) else 0
    texts = {name: str(value) for name, value in fields.items()}
    with contextlib.suppress(ProtocolError, BrokerRefused):
        pull.read(Frame(code, 0, 1, "", texts, body), "broker:1")


def bodies(data: bytes) -> None:
    """A compressed body, its flags in front."""
    if len(data) < 4:
        return
    with contextlib.suppress(ProtocolError):
        compression.decompress(data[4:], struct.unpack(">i", data[:4])[0])


def answers(data: bytes) -> None:
    """Tables of brokers, in the JSON of fastjson that is none."""
    with contextlib.suppress(ProtocolError, NoBrokers, StartupError):
        found = fastjson.parse(data)
        with contextlib.suppress(ProtocolError):
            _topic("t", found)
        _read_topology(found, "n:1", None)


_SIGNER: Final = Signer(None)


def control(data: bytes) -> None:
    """A message on a system topic, and the records in it."""
    try:
        group_of(data)
        verified = _SIGNER.verify("replicator_sys_control", data, ["group"])
        envelope = read_message(data if verified is None else verified.body, now=_NOW)
        ReplayWindow().admits("queue", envelope.incarnation, envelope.counter)  # type: ignore[arg-type]
        if envelope.heartbeat is not None:
            Freshness().age("broker", 1, envelope.heartbeat.echo)
        envelope.records()
    except (Forged, Unreadable, NewerForm):
        return


def records(data: bytes) -> None:
    """An array of records: those that fit can be kept, and are the same when they are read again."""
    try:
        fitting, _ = fit_all(data, now=_NOW)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    again, skipped = fit_all(msgspec.json.encode(fitting), now=_NOW)
    assert again == fitting
    assert not skipped


_STATE: Final = ("connectorConfig.json", "taskConfig.json", "position.json", "offset.json", "identity.json")


def state(data: bytes) -> None:
    """A state file of this content does not keep a worker from its start, nor from what it does next.

    The first byte chooses the file's name, and whether its checksum is made right: hardly any would have the right
    one by chance, so that what the file says would never be read.
    """
    choice, content = data[0] if data else 0, data[1:]
    if choice // len(_STATE) % 2:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            content = state_file.encode(msgspec.json.decode(content))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory, contextlib.suppress(StartupError):
        (Path(directory) / _STATE[choice % len(_STATE)]).write_bytes(content)
        store = Store(Path(directory))
        queue = QueueState("orders", Queue("a", 0), Queue("b", 1), route="route")
        store.restore(queue)
        store.update([queue])
        store.queue_maps("route")
        store.write(store.snapshot())
        store.close()


def _state_seeds() -> Iterator[bytes]:
    """Each file as a worker writes it, without the checksum, and one whose checksum is wrong."""
    for at, name in enumerate(_STATE):
        kinds = store_module._FILES.get(name, ())
        kept: dict[str, Any] = {} if kinds else {"worker": "worker-1"}
        for kind in kinds:
            key, value = VALUES[kind]
            kept[kind] = {key: {"version": (3, "worker-1"), "value": value}}
        yield bytes([len(_STATE) + at]) + msgspec.json.encode(kept)
    yield b'\x01{"version":1,"sha256":"","content":{"task":{}}}'


def resident(data: bytes) -> None:
    """What a worker and its Spark tasks say to one another."""
    for read in (read_worker_message, read_task_message):
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            read(data)


def _record(kind: Kind, key: str, value: Any) -> Record:
    return Record(kind, key, Version(3, "worker-1"), value)


_RECORDS: Final = (
    _record(
        Kind.TASK, "route/orders", {"target_topic": "orders", "queues": {"a/0": "b/1"}, "late": [], "fresh": []}
    ),
    _record(Kind.ASSIGNMENT, "", {"members": ["worker-1"], "owners": {"route/orders": "worker-1"}}),
    _record(Kind.POSITION, "route/orders/a/0", {"position": 7, "start": 0, "anomalies": {"gaps": 1}}),
    _record(
        Kind.OFFSET,
        "route/orders/a/0",
        {"target_floor": 3, "store_timestamp": 9, "clean": True, "intervals": [(0, 0, 3), (5, 3, 4)]},
    ),
)
TARGETS: Final[Mapping[str, Target]] = {
    "frames": Target(
        frames,
        (
            b"\x03" + encode_answer(0, 7, "remark"),
            b"\xff" + b"".join(map(bytes, encode_request(11, 9, {"queueId": "3"}, body=[b"body"]))),
            b"\x01" + struct.pack(">II", 26, 1 << 24 | 22) + struct.pack(">HBHIIII", 0, 0, 1, 5, 1, 0, 0) + b"\0",
        ),
    ),
    "messages": Target(
        messages,
        (
            stored(),
            stored() + stored(offset=6, properties=b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/b/0/5/9\x02"),
            stored(sys_flag=0x30, magic=0xDAA320AB, properties=b"")
            + stored(sys_flag=0x30, magic=0xDAA320AB, offset=6),
        ),
    ),
    "pulled": Target(
        pulled,
        (
            b'{"code":0,"nextBeginOffset":6,"minOffset":0,"maxOffset":6}\0' + stored(),
            b'{"code":19,"nextBeginOffset":"0","minOffset":"-1","maxOffset":"-1"}\0',
        ),
    ),
    "bodies": Target(bodies, (struct.pack(">i", 1) + compression.compress(b"body" * 99, 1),)),
    "answers": Target(
        answers,
        (
            b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1"},"brokerName":"a","cluster":"c"}},"clusterAddrTable":{"c":["a"]}}',
            b'{"readQueueNums":4,"writeQueueNums":4,"perm":6,"topicFilterType":"SINGLE_TAG","attributes":{}}',
        ),
    ),
    **{name: Target(*each) for name, each in BROKERS.items()},
    "control": Target(
        control, tuple(write_records(Author("group", "worker-1", "abc"), iter(range(1, 9)), _RECORDS))
    ),
    "records": Target(records, (msgspec.json.encode(_RECORDS),)),
    "state": Target(state, tuple(_state_seeds())),
    **{name: Target(*each) for name, each in (*RECORDS.items(), *FILES.items())},
    "resident": Target(
        resident,
        tuple(
            map(
                msgspec.msgpack.encode,
                (
                    Drain(["k"], {"route": (0, 0)}),
                    Grant(1, 0.5, {"route": (1, 2)}, 1e9, {"a": 0.5}),
                    Hello(1, "h"),
                    Report(1, [], []),
                ),
            )
        ),
    ),
}
