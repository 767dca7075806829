"""Accounts, TLS, other versions, offsets that are not there, brokers that go: what Spark's tasks meet outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from replicator.errors import StartupError
from replicator.ranges.access import Access
from replicator.sandbox import Cluster, ClusterSpec
from replicator.state.store import InUse, Store
from tests.spark.waiting import settled
from tests.support.clusters import ClusterPool
from tests.support.guarded import shown
from tests.support.scene import SOURCE, TARGET, SceneOf
from tests.support.traffic import create_topic, raw_topic
from tests.support.worker import signing, until

Command = Callable[..., Coroutine[Any, Any, Result]]
OLD = ClusterSpec(name="east", version="4.9.7", acl="1.0")
NEW = ClusterSpec(name="west", version="5.5.0", acl="2.0")
SECURE = ClusterSpec(name="secure", version="5.3.3", tls=True)
WRONG = "not/the+secret of anybody"


def reading(spark: Any, namesrv: str, **options: object) -> Any:
    reader = spark.read.format("rocketmq").option("nameServer", namesrv)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def events(spark: Any) -> str:
    """Spark's event log."""
    directory = Path(spark.sparkContext.getConf().get("spark.eventLog.dir"))
    return "".join(path.read_text() for path in directory.iterdir() if path.is_file())


def told(result: Result) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


async def test_accounts_of_both_kinds(
    command: Command, spark: Any, scene: SceneOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.9.7 with ACL 1.0 to 5.5.0 with ACL 2.0: the right accounts do, wrong ones are told in one line each.

    The secrets are in no error, nor in Spark's configuration and event log.
    """
    async with scene(source=OLD, target=NEW, queues=2) as here:
        await here.produce(2000)
        await settled(here.source, here.topic, 2000)
        both = ("--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic)
        store = ("--store-path", tmp_path / "store", "--session-timeout", "3", "--output", "json")
        right = {
            **signing("SOURCE", here.source.access_key, here.source.secret_key),
            **signing("TARGET", here.target.access_key, here.target.secret_key),
        }
        said: list[str] = []
        for side, cluster in (("SOURCE", here.source), ("TARGET", here.target)):
            with monkeypatch.context() as patch:
                for name, value in {**right, **signing(side, cluster.access_key, WRONG)}.items():
                    patch.setenv(name, value)
                for name, more in (("backfill", store), ("verify", ()), ("export", ())):
                    if (name, side) == ("export", "TARGET"):
                        continue
                    given = (tmp_path / "archive", *both[:2], *both[4:]) if name == "export" else both
                    ended = await command(name, *given, *more)
                    assert ended.exit_code != 0
                    problem = f"{side.lower()} broker {cluster.brokers[0].name} does not list its topics"
                    assert problem in str(ended.exception)
                    said += [str(ended.exception), ended.output]
        with monkeypatch.context() as patch:
            for name, value in right.items():
                patch.setenv(name, value)
            assert told(await command("backfill", *both, *store))["copied"] == 2000
            await settled(here.target, here.topic, 2000)
            assert told(await command("verify", *both, "--complete", "--output", "json"))["clean"]
            archive = (tmp_path / "archive", *both[:2], *both[4:], "--output", "json")
            assert told(await command("export", *archive))["messages"] == 2000
        await here.assert_clean(2000)

        secret = tmp_path / "secret"
        secret.write_text(WRONG)
        await asyncio.to_thread(secret.chmod, 0o600)
        options = {"topic": here.topic, "accessKey": here.source.access_key, "secretKeyFile": secret}
        with pytest.raises(Exception, match=r"(?i)signature|acl|denied|check") as refused:
            reading(spark, here.source.namesrv, **options).count()
        said.append(str(refused.value))
        secret.write_text(here.source.secret_key)
        assert reading(spark, here.source.namesrv, **options).count() == 2000
        said += [f"{name}={value}" for name, value in spark.sparkContext.getConf().getAll()]
        log = await asyncio.to_thread(events, spark)
        assert "SparkListenerJobEnd" in log
        for key in (WRONG, here.source.secret_key, here.target.secret_key):
            assert not shown(key, *said, log)


async def test_tls_through_the_data_source(
    spark: Any, clusters: ClusterPool, topic_name: Callable[[str], str]
) -> None:
    """Written and read where nothing else is served; without TLS, the right CA or host, it is said."""
    cluster = await clusters.get(SECURE)
    topic, ca = topic_name("t"), cluster.tls_files.ca
    await create_topic(cluster, topic, queues=2)
    secure = {"topic": topic, "tls": "verify", "tlsCaFile": ca, "brokerHosts": "127.0.0.0/8,elsewhere"}
    writer = spark.createDataFrame([(f"n{i}",) for i in range(500)], "body STRING").write.format("rocketmq")
    for name, value in {"nameServer": cluster.namesrv, **secure}.items():
        writer = writer.option(name, str(value))
    writer.mode("append").save()
    await until(
        lambda: asyncio.to_thread(lambda: reading(spark, cluster.namesrv, **secure).count() == 500),
        what="500 messages",
    )
    with pytest.raises(Exception, match="cannot be reached"):
        reading(spark, cluster.namesrv, topic=topic).count()
    with pytest.raises(Exception, match=r"(?i)certificate"):
        reading(spark, cluster.namesrv, topic=topic, tls="verify").count()
    with pytest.raises(Exception, match=r"at 127\.0\.0\.1:\d+, where broker_hosts allows"):
        reading(spark, cluster.namesrv, **{**secure, "brokerHosts": "10.0.0.0/8"}).count()


async def test_a_stream_between_guarded_clusters(spark: Any, scene: SceneOf, tmp_path: Path) -> None:
    """From where accounts sign to where nothing but TLS is served; a wrong secret ends it, and is not shown."""
    from pyspark.sql.functions import lit

    async with scene(source=NEW, target=SECURE, queues=2) as here:
        await here.produce(1000)
        await settled(here.source, here.topic, 1000)
        await create_topic(here.target, here.topic, queues=2)
        secret = tmp_path / "secret"
        secret.write_text(WRONG)
        await asyncio.to_thread(secret.chmod, 0o600)
        frame = spark.readStream.format("rocketmq").option("nameServer", here.source.namesrv)
        frame = frame.option("accessKey", here.source.access_key).option("secretKeyFile", str(secret))
        frame = frame.option("topic", here.topic).option("startingOffsets", "earliest").option("provenance", "true")
        writer = frame.load().withColumn("brokerName", lit(here.target.brokers[0].name)).writeStream
        ca = str(here.target.tls_files.ca)
        writer = writer.format("rocketmq").option("nameServer", here.target.namesrv)
        writer = writer.option("tls", "verify").option("tlsCaFile", ca).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

        def copied() -> None:
            writer.start().awaitTermination()

        with pytest.raises(Exception, match=r"(?i)signature|denied|check") as refused:
            copied()
        assert WRONG not in str(refused.value)
        secret.write_text(here.source.secret_key)
        copied()
        secure = {"topic": here.topic, "tls": "verify", "tlsCaFile": ca}

        def bodies(namesrv: str, **options: object) -> list[tuple[int, int, bytes]]:
            rows = reading(spark, namesrv, **options).select("queueId", "queueOffset", "body").collect()
            return sorted((row.queueId, row.queueOffset, bytes(row.body)) for row in rows)

        account_of = {"accessKey": here.source.access_key, "secretKeyFile": secret, "topic": here.topic}
        wanted = await asyncio.to_thread(bodies, here.source.namesrv, **account_of)
        assert len(wanted) == 1000

        async def same() -> bool:
            return await asyncio.to_thread(bodies, here.target.namesrv, **secure) == wanted

        await until(same, what="the same messages at the target")


async def test_offsets_and_topics_that_are_not_there(spark: Any, scene: SceneOf) -> None:
    """An error that names them; with `failOnDataLoss=false` what is there is read, of topics that are there."""
    async with scene(queues=1) as here:
        await here.produce(100)
        await settled(here.source, here.topic, 100)
        broker, namesrv = here.source.brokers[0].name, here.source.namesrv

        def offsets(offset: int) -> str:
            return json.dumps({here.topic: {broker: {"0": offset}}})

        for bounds, left in (
            ({"endingOffsets": offsets(200)}, 100),
            ({"startingOffsets": offsets(60), "endingOffsets": offsets(200)}, 40),
            ({"startingOffsets": offsets(150)}, 0),
        ):
            with pytest.raises(Exception, match="has the offsets 0 to 100"):
                reading(spark, namesrv, topic=here.topic, **bounds).count()
            assert reading(spark, namesrv, topic=here.topic, failOnDataLoss="false", **bounds).count() == left
        for missing in ("true", "false"):
            with pytest.raises(Exception, match="topic = 'no-such-topic': no broker has it"):
                reading(spark, namesrv, topic="no-such-topic", failOnDataLoss=missing).count()


async def reached(cluster: Cluster, *, patience: float) -> list[str]:
    """The brokers that a task finds."""
    async with Access(namesrv=(cluster.namesrv,)).connected(patience=patience) as client:
        return list(client.brokers())


async def test_brokers_that_go_in_the_middle_of_a_job(command: Command, scene: SceneOf, tmp_path: Path) -> None:
    """The source comes back: the job ends. The target does not: what is open is said; run again it ends."""
    async with scene(queues=2, mistreated=(SOURCE, TARGET)) as here:
        await here.produce(6000)
        await settled(here.source, here.topic, 6000)
        given = ["--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic]
        given += ["--store-path", str(tmp_path / "store"), "--session-timeout", "3", "--settle-timeout", "0.2"]
        given += ["--batch-messages", "100", "--output", "json"]

        async def under_way(before: int) -> bool:
            return sum(map(len, (await raw_topic(here.target, here.topic)).values())) > before

        job = asyncio.create_task(command("backfill", *given, "--rate-messages", "2000"))
        await until(lambda: under_way(500), what="first copies")
        with pytest.raises(InUse):  # so a worker with this store path is refused
            Store(tmp_path / "store")
        (broker,) = here.source.brokers
        await broker.kill()
        await broker.start()
        done = told(await job)
        assert done["before"] + done["copied"] == 6000
        await settled(here.target, here.topic, 6000)
        await here.assert_clean(6000)

        await here.produce(4000, start=6000)
        await settled(here.source, here.topic, 10_000)
        given += ["--manifest", str(tmp_path / "second")]
        job = asyncio.create_task(command("backfill", *given, "--rate-messages", "1000", "--stall-timeout", "2"))
        await until(lambda: under_way(6500), what="more copies")
        (broker,) = here.target.brokers
        await broker.kill()
        ended = await job
        assert ended.exit_code == 5, (ended.output, ended.exception)
        found = json.loads(ended.stdout)
        assert not found["complete"]
        for queue in found["queues"]:
            assert "made no progress" in queue["error"] or "start a broker there" in queue["error"]
        with pytest.raises(StartupError):
            await reached(here.target, patience=0.0)
        waiting = asyncio.create_task(reached(here.target, patience=60.0))
        await broker.start()
        assert await waiting == [broker.name]
        done = told(await command("backfill", *given))
        assert sum(queue["before"] + queue["copied"] for queue in done["queues"]) == 10_000
        await settled(here.target, here.topic, 10_000)
        await here.assert_clean(10_000)
