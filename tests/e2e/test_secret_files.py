"""An account's secret, or certificates, change at a cluster, then in the files of the worker, which goes on."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from acl_sync.model import Secret
from replicator.sandbox import Cluster, ClusterSpec, tls
from tests.support.clusters import ClusterPool
from tests.support.guarded import access
from tests.support.least_rights import guarded
from tests.support.traffic import Producer, create_topic, judge, produce
from tests.support.worker import Worker, until

pytestmark = [pytest.mark.side_by_side("guarded"), pytest.mark.timeout(300)]

EAST = ClusterSpec(name="east", version="5.3.3")
MUTUAL = ClusterSpec(name="mutual", version="5.5.0", tls=True, tls_client_auth=True)


async def test_a_new_secret(clusters: ClusterPool, tmp_path: Path) -> None:
    """Copying waits while the file has the old one, and goes on with the new one; so does REST with a new token.

    First one of the target's account, then one of the source's, with which the group works, too.
    """
    async with guarded(clusters) as here:
        source, target = here.source.cluster, here.target.cluster
        reading, secret, token = (tmp_path / name for name in ("reading", "secret", "token"))
        of = {reading: here.reader.secret.reveal(), secret: here.writer.secret.reveal(), token: "old-token"}
        for file, content in of.items():
            file.touch(mode=0o600)
            file.write_text(content)
        environment = {
            "REPLICATOR_SOURCE__ACCESS_KEY": here.reader.name,
            "REPLICATOR_SOURCE__SECRET_KEY_FILE": str(reading),
            "REPLICATOR_TARGET__ACCESS_KEY": here.writer.name,
            "REPLICATOR_TARGET__SECRET_KEY_FILE": str(secret),
            "REPLICATOR_REST__TOKEN_FILE": str(token),
        }
        flags = ("--topics", here.topic, "--sync", "none")
        async with Worker(source, target, tmp_path / "worker", *flags, environment=environment) as worker:

            async def copies(count: int) -> bool:
                verdict = await judge(source, target, here.topic)
                return verdict.clean and verdict.copies == count

            def allowed(bearer: str) -> bool:
                return worker.ask("GET", "/connectors/list", token=bearer)[0] == 200

            await until(lambda: copies(100), what="the first messages")
            await here.target.put(dataclasses.replace(here.writer, secret=Secret("another secret of who writes")))
            await produce(source, here.topic, 100, start=100)
            await until(lambda: "refused" in worker.log, what="the target refuses the old secret")
            assert not await copies(200)
            secret.write_text("another secret of who writes\n")
            token.write_text("new-token")
            await until(lambda: copies(200), what="the rest, with the new secret")
            await until(lambda: allowed("new-token"), what="the new token")
            assert not allowed("old-token")
            await here.source.put(dataclasses.replace(here.reader, secret=Secret("another secret of who reads")))
            await produce(source, here.topic, 100, start=200)
            await until(lambda: "lease lost" in worker.log, what="the source refuses the old secret")
            assert not await copies(300)
            reading.write_text("another secret of who reads")
            await until(lambda: copies(300), what="the rest, with the new secret of the source")
            used = [event["of"] for event in worker.events if event["event"].startswith("changed files are used")]
            assert sorted(used) == ["rest tokens", "source", "target"]
            for hidden in ("another secret of who", "new-token"):
                assert hidden not in worker.log
            assert await worker.drain() == 0


def _give(cluster: Cluster, directory: Path) -> dict[str, str]:
    """Copies of what a client of the cluster needs, and the environment of a worker whose target it is."""
    files = access("TARGET", cluster)
    for name, file in files.items():
        if name.endswith("_FILE"):
            shutil.copy(file, directory / Path(file).name)
            files[name] = str(directory / Path(file).name)
    return files


async def _renew_certificates(cluster: Cluster) -> None:
    """Restarts all nodes with certificates of another authority, in the same files as before."""
    files = tls.make(cluster.tls_files.ca.parent, client_auth=True)
    for node in cluster.nodes:
        await node.stop()
    for node in cluster.nodes:
        node._setup = dataclasses.replace(node._setup, context=files.context())
        await node.start()


async def test_new_certificates_of_another_authority(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Under load: copying waits while the worker has the old files, and goes on with the new ones."""
    topic, mine = topic_name("t"), tmp_path / "mine"
    mine.mkdir()
    source = await clusters.get(EAST)
    await create_topic(source, topic, queues=4)
    async with clusters.fresh(MUTUAL) as target:
        environment = _give(target, mine)
        flags = ("--topics", topic, "--sync", "none")
        async with Worker(source, target, tmp_path / "worker", *flags, environment=environment) as worker:
            pid = worker.pid
            async with Producer(source, topic, per_second=500) as producer:
                await worker.goes_on(topic, 500)
                await _renew_certificates(target)

                def waits() -> bool:
                    return all("certificate is not trusted" in queue["reason"] for queue in worker.queues(topic))

                await until(waits, what="no queue trusts the target any more")
                _give(target, mine)
                await worker.goes_on(topic, 500)
            await worker.caught_up(topic, producer.acknowledged)
            shown = worker.topic(topic)
            assert (shown["duplicates"], shown["foreign"], shown["gap_messages"]) == (0, 0, 0)
            used = [event["of"] for event in worker.events if event["event"].startswith("changed files are used")]
            assert used == ["target"]
            assert await worker.drain() == 0
            assert worker.pid == pid
        verdict = await judge(source, target, topic)
        assert verdict.clean, verdict.report()
        assert verdict.copies == producer.acknowledged
