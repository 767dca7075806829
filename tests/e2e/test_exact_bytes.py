"""A message arrives as it was: body, flag, properties, and what makes it special."""

from __future__ import annotations

import os
import re
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
from backports import zstd

import acl_sync
import replicator
from replicator.protocol import properties
from replicator.protocol.message import COMPRESSION, StoredMessage
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.javatool import Order, java_produce, java_read_topic
from tests.support.traffic import RESERVED, connected, create_topic, judge, raw_topic, send, send_alone
from tests.support.worker import Worker

VERSIONS = [("4.9.7", "5.5.0"), ("5.5.0", "4.9.7"), ("5.3.3", "5.3.3"), ("5.1.4", "5.5.0"), ("5.5.0", "5.1.4")]
Key = dict[str, str]

#: As a broker appends it to the properties of what it stores.
_CHECKSUM = rb"__CRC32#\x01(\d{10})\x02?"

EVERY_BYTE = bytes(range(256)) * 3
PLAIN: list[tuple[bytes, Key]] = [
    (EVERY_BYTE, {"KEYS": "a b c", "TAGS": "ä|ü", "UNIQ_KEY": "0A" * 16}),
    (b"\x00", {"name with space": "value = 'quoted' \\ \" {}", "emptyvalue": "", "日本": "値段🙂"}),
    (b"x", {"__SHARDINGKEY": "customer-7", "WAIT": "true", "CLUSTER": "not-mine"}),
    (EVERY_BYTE, {"long": "y" * 31_000}),
    (b"", {"KEYS": "empty body"}),
    (b"no properties", {}),
]


def _properties_kept(message: StoredMessage) -> Key:
    return {k: v for k, v in properties.decode(message.properties).items() if k not in RESERVED}


async def _assert_same(source: Cluster, target: Cluster, topic: str, *, born: bool = False) -> int:
    """Compares both topics message by message, to the byte; gives their number."""
    before, after = await raw_topic(source, topic), await raw_topic(target, topic)
    count = 0
    for (_, queue_id), messages in before.items():
        (copies,) = [found for (_, q), found in after.items() if q == queue_id]
        assert [m.queue_offset for m in messages] == [m.queue_offset for m in copies]
        for message, copy in zip(messages, copies, strict=True):
            assert copy.body == message.body
            assert copy.flag == message.flag
            assert _properties_kept(copy) == _properties_kept(message)
            assert copy.sys_flag & COMPRESSION == message.sys_flag & COMPRESSION
            assert copy.reconsume_times == message.reconsume_times
            if born:
                assert copy.born_timestamp == message.born_timestamp
            count += 1
    return count


@pytest.mark.parametrize(("source_version", "target_version"), VERSIONS)
async def test_bodies_and_properties_of_every_kind(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    source_version: str,
    target_version: str,
) -> None:
    """Every byte value, nothing, 4 MiB less a little, all compressions, unicode, 32 KB of properties, messages that
    were consumed in vain.
    """
    source, target = await clusters.pair(
        ClusterSpec(name="east", version=source_version), ClusterSpec(name="west", version=target_version)
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    text = b"the same words again and again " * 40
    async with connected(source) as client:
        await send(client, "east-a", topic, 0, [(b"numbers below zero", {})], flag=-77, born=-1)
        for message in PLAIN:
            await send(client, "east-a", topic, 0, [message], flag=77)
        for kind, body in (
            (0x001, zlib.compress(text)),
            (0x101, lz4.frame.compress(text)),
            (0x201, zstd.compress(text)),
            (0x301, zlib.compress(text)),
        ):
            await send(client, "east-a", topic, 0, [(body, {"TAGS": hex(kind)})] * 3, sys_flag=kind)
        for times in (3, 16, 3, 0):
            await send(
                client, "east-a", topic, 0, [(b"not consumed", {"TAGS": "again"})] * 2, reconsume_times=times
            )
        await send(client, "east-a", topic, 0, [(os.urandom(4 * 1024 * 1024 - 1000), {"KEYS": "large"})])
    count = len(PLAIN) + 22
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await worker.caught_up(topic, count)
    assert {message.reconsume_times for message in (await raw_topic(source, topic))["east-a", 0]} == {0, 3, 16}
    assert await _assert_same(source, target, topic) == count


@pytest.mark.parametrize("compiled", [True, False])
async def test_with_compiled_code_and_without(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], compiled: bool
) -> None:
    """What compiled code takes a whole pull of at once arrives as it was; without it too, with a warning."""
    source, target = await clusters.pair(
        ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.5.0")
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    async with connected(source) as client:
        for times in range(20):
            await send(client, "east-a", topic, 0, PLAIN, flag=times)
    environment = {}
    if not compiled:
        for package in (replicator, acl_sync):
            root = Path(package.__file__ or "").parent
            shutil.copytree(
                root, tmp_path / "src" / root.name, ignore=shutil.ignore_patterns("*.so", "__pycache__")
            )
        environment["PYTHONPATH"] = str(tmp_path / "src")
    program = ("-P", "-m", "replicator")  # not what lies in the working directory
    async with Worker(
        source, target, tmp_path, "--topics", topic, environment=environment, program=program
    ) as worker:
        await worker.caught_up(topic, 20 * len(PLAIN))
    assert ("no compiled code" in worker.log) is not compiled
    assert await _assert_same(source, target, topic) == 20 * len(PLAIN)


async def test_a_body_of_the_whole_4_mib(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """5.x counts the body alone in a single send, so it takes what no batch can hold."""
    source, target = await clusters.pair(
        ClusterSpec(name="east", version="5.5.0"), ClusterSpec(name="west", version="5.3.3")
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    body = os.urandom(4 * 1024 * 1024)
    await java_produce(source.namesrv, [Order(topic=topic, body=body, keys="whole", flag=5, properties={"a": "b"})])
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await worker.caught_up(topic, 1)
    (message,) = (await raw_topic(target, topic))["west-a", 0]
    assert message.body[4:] == body
    assert message.flag == 5
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()


@pytest.mark.parametrize(("source_version", "target_version"), VERSIONS)
async def test_delayed_and_transactional_messages_of_the_official_client(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    source_version: str,
    target_version: str,
) -> None:
    """Delivered delay and timer messages are not delayed again, committed transactions do not vanish.

    A source of 5.5.0 is the test's own: a broker that has seen a transaction spins on a core afterwards.
    """
    target = await clusters.get(ClusterSpec(name="west", version=target_version))
    topic = topic_name("t")
    spec = ClusterSpec(name="east", version=source_version)
    async with clusters.fresh(spec) if source_version == "5.5.0" else clusters.lent(spec) as source:
        await create_topic(source, topic, queues=2)
        orders = [
            Order(topic=topic, body=b"delayed", keys="d", level=1),
            Order(topic=topic, body=b"committed", keys="c", kind="commit"),
            Order(topic=topic, body=b"rolled back", keys="r", kind="rollback"),
            Order(topic=topic, body=b"sharded", keys="s", shard=3),
            Order(topic=topic, body="grüße".encode(), keys="u", properties={"ключ": "значение"}),
        ]
        if source_version != "4.9.7":
            orders.append(Order(topic=topic, body=b"timed", keys="t", delay_s=1))
        await java_produce(source.namesrv, orders)
        count = len(orders) - 1
        async with Worker(source, target, tmp_path, "--topics", topic) as worker:
            await worker.caught_up(topic, count)
            arrived = time.time()
        assert await _assert_same(source, target, topic) == count
        read = await java_read_topic(target.namesrv, topic)
        assert sorted(message.properties["KEYS"] for message in read) == sorted("dcsut"[: min(5, count)])
        assert max(message.stored for message in read) / 1000 <= arrived + 1


async def test_exact_born_timestamps_on_request(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """`batch` gives a batch the timestamp of its first message, `exact` splits batches."""
    source, target = await clusters.pair(
        ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    now = int(time.time() * 1000)
    async with connected(source) as client:
        for i in range(30):
            await send(client, "east-a", topic, 0, [(b"%d" % i, {"KEYS": str(i)})], born=now - 1000 * (i // 3))
    async with Worker(source, target, tmp_path, "--topics", topic, "--born-timestamp", "exact") as worker:
        await worker.caught_up(topic, 30)
    assert await _assert_same(source, target, topic, born=True) == 30


async def test_messages_compressed_by_the_official_client_are_read_by_it(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Bodies stay compressed on the way and come out of the official client as they went in."""
    source, target = await clusters.pair(
        ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.5.0")
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    body = b"compress me " * 100
    for kind in ("zlib", "lz4", "zstd"):
        await java_produce(source.namesrv, [Order(topic=topic, body=body, keys=kind)], compress=kind)
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await worker.caught_up(topic, 3)
    (stored,) = (await raw_topic(target, topic)).values()
    assert all(message.body_length < len(body) / 2 for message in stored)
    read = await java_read_topic(target.namesrv, topic)
    assert [(message.properties["KEYS"], message.body) for message in read] == [
        (kind, body) for kind in ("zlib", "lz4", "zstd")
    ]


@pytest.mark.parametrize("versions", [("5.3.3", "5.5.0"), ("5.5.0", "5.3.3")])
async def test_checksums_that_brokers_append(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], versions: tuple[str, str]
) -> None:
    """Each copy has one, and it is the target's own; in batches and alone."""
    appending = {"enabledAppendPropCRC": "true"}
    source, target = await clusters.pair(
        *(
            ClusterSpec(name=name, version=version, properties=appending)
            for name, version in zip(("east", "west"), versions, strict=True)
        )
    )
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    async with connected(source) as client:
        await send(client, "east-a", topic, 0, [(b"in a batch", {"KEYS": f"k{i}"}) for i in range(20)])
        for i in range(5):
            await send_alone(client, "east-a", topic, 0, b"alone", {"KEYS": f"a{i}"})
    async with Worker(source, target, tmp_path, "--topics", topic) as worker:
        await worker.caught_up(topic, 25)
    assert await _assert_same(source, target, topic) == 25
    found = [re.findall(_CHECKSUM, m.properties) for m in (await raw_topic(target, topic))["west-a", 0]]
    assert {len(each) for each in found} == {1}
    before = [re.findall(_CHECKSUM, m.properties) for m in (await raw_topic(source, topic))["east-a", 0]]
    assert all(here != there for here, there in zip(before, found, strict=True))
