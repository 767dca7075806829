"""What tasks write to queues, on real brokers: copies only once, whoever else writes, and patience with brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from replicator.errors import ConfigError, ReplicatorError
from replicator.protocol import properties
from replicator.ranges import retry
from replicator.routing import provenance
from replicator.sandbox import ClusterSpec
from replicator.spark.source import queue_writer
from replicator.spark.source.row_encoder import Row
from replicator.spark.source.sender import Sender
from tests.spark.waiting import settled
from tests.support.clusters import ClusterPool
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import connected, create_topic, produce, raw_topic, remove_topic
from tests.support.worker import until

PAIR = ClusterSpec(name="wide", brokers=2)


def copies(here: Scene, offsets: Iterable[int], *, stored: int = 1_000_000) -> list[Row]:
    """Rows of one source queue, for the first queue of the target; that of offset 0 was stored at `stored`."""
    return [
        Row(
            here.topic,
            f"{stored}/{i}".encode(),
            b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/east-a/0/%d/%d\x02" % (i, stored + i),
            broker=here.target.brokers[0].name,
            queue_id=0,
        )
        for i in offsets
    ]


async def bodies(here: Scene) -> list[str]:
    """Those of the first queue of the target, in order."""
    stored = await raw_topic(here.target, here.topic)
    return [message.body[4:].decode() for message in stored[here.target.brokers[0].name, 0]]


async def target_of(scene: Scene) -> None:
    await create_topic(scene.target, scene.topic, queues=1)


async def test_a_source_topic_that_was_recreated(scene: SceneOf) -> None:
    """Its offsets come again, stored later: all are sent, by a task that is tried again only what is missing."""
    async with scene() as here, connected(here.target) as client:
        await target_of(here)
        old = copies(here, range(300))
        await Sender(client, settle=False, brokers=client.brokers()).send(old)
        await settled(here.target, here.topic, 300)
        recreated = copies(here, range(400), stored=2_000_000)
        broken_off = Sender(client, settle=False, brokers=client.brokers())
        await broken_off.send(recreated[:150])
        assert broken_off.sent == 150
        again = Sender(client, settle=True, brokers=client.brokers())
        await again.send(recreated[:200])
        await again.send(recreated[200:])
        assert again.sent == 250
        await settled(here.target, here.topic, 700)
        assert await bodies(here) == [row.body.decode() for row in old + recreated]


async def test_a_clock_that_was_set_back_recreates_nothing(scene: SceneOf) -> None:
    """What the source stored before that is there, though it was stored later than what is there last."""
    async with scene() as here, connected(here.target) as client:
        await target_of(here)
        rows = copies(here, range(10)) + copies(here, range(10, 20), stored=999_000)
        for _ in range(2):
            await Sender(client, settle=True, brokers=client.brokers()).send(rows)
        await settled(here.target, here.topic, 20)
        assert await bodies(here) == [row.body.decode() for row in rows]


async def test_rows_out_of_order_are_refused(scene: SceneOf) -> None:
    """Instead of being taken for what is there; the same row twice is one."""
    async with scene() as here, connected(here.target) as client:
        await target_of(here)
        sender = Sender(client, settle=False, brokers=client.brokers())
        await sender.send(copies(here, [0, 1, 1, 5]))
        with pytest.raises(ReplicatorError, match=r"east-a/0/4 comes after that of offset 5.*sorted by"):
            await sender.send(copies(here, [4]))
        assert sender.sent == 3


async def test_copies_that_name_no_queue_go_where_they_went_before(scene: SceneOf) -> None:
    """Another attempt finds them, and those of each source queue stay in order."""
    async with scene() as here, connected(here.target) as client:
        await create_topic(here.target, here.topic, queues=4)
        rows = [
            Row(
                here.topic,
                b"%d" % i,
                b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/east-a/%d/%d/%d\x02" % (q, i, i),
            )
            for i in range(50)
            for q in range(8)
        ]
        await Sender(client, settle=False, brokers=client.brokers()).send(rows[:200])
        for _ in range(5):  # where they would begin at random
            await Sender(client, settle=True, brokers=client.brokers()).send(rows)
        await settled(here.target, here.topic, 400)
        places: dict[int, list[tuple[tuple[str, int], int]]] = {}
        for place, messages in (await raw_topic(here.target, here.topic)).items():
            for message in messages:
                source = provenance.read(message.properties)
                assert source is not None
                places.setdefault(source.queue_id, []).append((place, source.offset))
        for copies_of_one in places.values():
            assert len({place for place, _ in copies_of_one}) == 1
            assert [offset for _, offset in copies_of_one] == list(range(50))
        assert len({place for of_one in places.values() for place, _ in of_one}) > 1


async def test_a_task_that_was_paused_sees_the_next_attempt(
    scene: SceneOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which has gone on meanwhile: before it sends more, it looks, and ends."""
    monkeypatch.setattr(queue_writer, "_REST", 0.0)
    async with scene() as here, connected(here.target) as client:
        await target_of(here)
        rows = copies(here, range(300))
        paused, other = (
            Sender(client, settle=False, brokers=client.brokers()),
            Sender(client, settle=True, brokers=client.brokers()),
        )
        await paused.send(rows[:100])
        await other.send(rows[:200])
        with pytest.raises(ReplicatorError, match=r"a copy of east-a/0/100 at offset 100 .*: have one writer"):
            await paused.send(rows[100:200])
        await other.send(rows[200:])
        await settled(here.target, here.topic, 300)
        assert await bodies(here) == [row.body.decode() for row in rows]


async def test_two_writers_of_one_source_queue(scene: SceneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lands where it was not expected tells both; who is tried again goes on behind all that is there."""
    monkeypatch.setattr(queue_writer, "_REST", 60.0)
    async with scene() as here, connected(here.target) as client:
        await target_of(here)
        rows = copies(here, range(300))
        first, second = (
            Sender(client, settle=False, brokers=client.brokers()),
            Sender(client, settle=True, brokers=client.brokers()),
        )
        await first.send(rows[:100])
        await second.send(rows[:101])
        for sender, part, offset in ((first, rows[100:110], 100), (second, rows[101:111], 101)):
            with pytest.raises(ReplicatorError, match=rf"at offset {offset} that another producer wrote meanwhile"):
                await sender.send(part)
        third = Sender(client, settle=True, brokers=client.brokers())
        await third.send(rows)
        assert third.sent == 189
        await settled(here.target, here.topic, 310)


async def test_messages_of_others_in_between(scene: SceneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers, and copies of other queues, are nobody's repeat; looked at before a batch and behind one."""
    async with scene() as here, connected(here.target) as client:
        await target_of(here)
        rows = copies(here, range(300))
        sender = Sender(client, settle=False, brokers=client.brokers())
        await sender.send(rows[:100])
        for number, (part, rest) in enumerate(((rows[100:200], 60.0), (rows[200:], 0.0))):
            monkeypatch.setattr(queue_writer, "_REST", rest)
            await produce(here.target, here.topic, 10)
            other = b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/east-b/0/%d/1\x02" % number
            await Sender(client, settle=False, brokers=client.brokers()).send(
                [part[0]._replace(body=b"other", properties=other)]
            )
            await sender.send(part)
        await settled(here.target, here.topic, 322)
        stored = (await raw_topic(here.target, here.topic))[here.target.brokers[0].name, 0]
        found = [provenance.read(message.properties) for message in stored]
        assert [each.offset for each in found if each is not None and each.broker == "east-a"] == [*range(300)]


async def test_a_queue_that_goes_back(scene: SceneOf) -> None:
    """Its topic was deleted and made recreated while rows were written: what is there now nobody knows."""
    async with scene() as here, connected(here.target) as client:
        await target_of(here)
        sender = Sender(client, settle=False, brokers=client.brokers())
        await sender.send(copies(here, range(50)))
        await remove_topic(here.target, here.topic)
        await target_of(here)
        with pytest.raises(ReplicatorError, match="went back from offset 50 to 0: it was truncated or recreated"):
            await sender.send(copies(here, range(50, 60)))


def sharded(here: Scene) -> list[Row]:
    return [Row(here.topic, b"x", b"__SHARDINGKEY\x01%d\x02n\x01%d\x02" % (i, i)) for i in range(100)]


async def places(here: Scene) -> list[dict[str, tuple[str, int]]]:
    """Where the messages with each number are, by run."""
    found: list[dict[str, tuple[str, int]]] = [{}, {}]
    for place, messages in (await raw_topic(here.target, here.topic)).items():
        for message in messages:
            number = properties.decode(message.properties)["n"]
            found[number in found[0]][number] = place
    return found


async def test_a_broker_that_is_away_is_waited_for(clusters: ClusterPool, scene: SceneOf) -> None:
    """So that sharding keys go where they went before; its name server has forgotten it meanwhile."""
    async with scene(target=PAIR, mistreated=(PAIR,)) as here:
        await create_topic(here.target, here.topic, queues=2)
        async with connected(here.target) as client:
            brokers = set(client.brokers())
            await Sender(client, settle=False, brokers=brokers).send(sharded(here))
        await settled(here.target, here.topic, 100)
        await here.target.brokers[1].kill()

        async def is_forgotten() -> bool:
            async with connected(here.target) as client:
                return set(client.brokers()) < brokers

        await until(is_forgotten, what="the name server knows one broker")
        async with connected(here.target) as client:
            writing = asyncio.create_task(Sender(client, settle=False, brokers=brokers).send(sharded(here)))
            await here.target.brokers[1].start()
            await writing
        await settled(here.target, here.topic, 200)
        before, after = await places(here)
        assert len(before) == 100
        assert before == after


async def test_a_broker_that_stays_away(scene: SceneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is one clear error, after a minute; rows that name a queue of another one need not wait."""
    monkeypatch.setattr(retry, "PATIENCE", 0.2)
    async with scene() as here, connected(here.target) as client:
        await target_of(here)
        sender = Sender(client, settle=False, brokers={"west-z"})
        await sender.send(copies(here, range(10)))
        assert sender.sent == 10
        with pytest.raises(
            ReplicatorError, match=r"^broker west-z: .* do not know it\), for 0.2 s: check that its broker runs"
        ):
            await sender.send(sharded(here))
        with pytest.raises(
            ConfigError, match=r"has no queue west-y/0: create it, or leave out brokerName and queueId"
        ):
            await sender.send([copies(here, [10])[0]._replace(broker="west-y")])
