"""What tests of accounts on real brokers begin with: two guarded clusters, seen by their administrators."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from acl_sync import AclOptions, AclPlan, AclSyncer, broker_acl
from acl_sync.model import Account, AclState, Dialect
from replicator.client.cluster import Cluster as Client
from replicator.client.security import Credentials, Security
from replicator.client.send import send_single
from replicator.client.topics import TopicConfig, write_topic
from replicator.errors import BrokerRefused
from replicator.protocol.batch import header_fields
from replicator.sandbox import Cluster, ClusterSpec
from tests.support.attempt import attempt
from tests.support.clusters import ClusterPool

__all__ = ["IN_TIME", "MIDDLE", "NEW", "OLD", "OLD_PAIR", "Scene", "Side", "a_scene", "between"]

OLD = ClusterSpec(name="east", version="4.9.7", acl="1.0")
MIDDLE = ClusterSpec(name="east", version="5.3.3", acl="2.0")
NEW = ClusterSpec(name="west", version="5.5.0", acl="2.0")
OLD_PAIR = ClusterSpec(name="west", version="4.9.7", acl="1.0", brokers=2)

#: Seconds within which a change has to be active at the target.
IN_TIME = 10.0


class Side:
    """A guarded cluster, seen by its administrator."""

    def __init__(self, cluster: Cluster) -> None:
        self.namesrv = cluster.namesrv
        self.cluster = cluster
        self.admin = Credentials(cluster.access_key, cluster.secret_key)
        self.client = self.connect(self.admin)
        self.dialect = Dialect(cluster.spec.acl)

    def connect(self, credentials: Credentials) -> Client:
        return Client([self.namesrv], security=Security(credentials))

    async def states(self) -> dict[str, AclState]:
        topology = await self.client.refresh()
        speech = broker_acl.BrokerAcl(self.dialect)
        return {name: await broker_acl.read(self.client.writer(name), speech) for name in sorted(topology.brokers)}

    async def put(self, wanted: Account, *, only: str = "") -> None:
        for broker, state in (await self.states()).items():
            if only in ("", broker):
                before = state.accounts.get(wanted.name)
                await broker_acl.write_account(self.client.writer(broker), self.dialect, wanted, before=before)

    async def drop(self, name: str, *, only: str = "") -> None:
        for broker, state in (await self.states()).items():
            if name in state.accounts and only in ("", broker):
                await broker_acl.delete_account(self.client.writer(broker), self.dialect, name)

    async def create(self, *topics: str) -> None:
        for broker in (await self.client.refresh()).brokers:
            for name in topics:
                await write_topic(self.client.writer(broker), TopicConfig(name=name, read_queues=1, write_queues=1))

    async def lets_send(self, who: Account, name: str) -> bool:
        """Whether every broker takes a message of `who`."""
        return all(await self.takes(who, name))

    async def takes(self, who: Account, name: str) -> list[bool]:
        """Of each broker, whether it takes a message of `who`."""
        fields = header_fields(group="g", topic=name, queue_id=0, sys_flag=0, born_timestamp=1, reconsume_times=0)
        fields["m"] = "false"
        client = self.connect(Credentials(who.name, who.secret.reveal()))
        done: list[bool] = []
        try:
            for broker in (await client.refresh()).brokers:
                try:
                    await send_single(client.writer(broker), fields, b"hello")
                    done.append(True)
                except BrokerRefused as error:
                    if error.code != 16 and "AclException" not in error.remark:  # 4.9 has no code for it
                        raise
                    done.append(False)
        finally:
            await client.close()
        return done


class Scene:
    """Two guarded clusters, and the names that are the test's own."""

    def __init__(self, source: Side, target: Side, stem: str, **options: object) -> None:
        self.source = source
        self.target = target
        self.name = f"{stem}-account"
        self.topic = f"{stem}-topic"
        self.other = f"{stem}-other"
        self.options = AclOptions(
            include=(f"{stem}-.*",), own=frozenset({source.admin.access_key, target.admin.access_key})
        )
        self.syncer = self.sync(**options)

    def sync(self, **options: object) -> AclSyncer:
        wanted = dataclasses.replace(self.options, **options)  # type: ignore[arg-type]
        owned = self.syncer.owned if hasattr(self, "syncer") else None
        return AclSyncer(self.source.client, self.target.client, wanted, owned=owned)

    async def step(self) -> AclPlan:
        """As a worker does each few seconds."""
        plan = await self.syncer.plan()
        assert not [each.error for each in await self.syncer.apply(plan) if each.error]
        return plan

    async def settles(self, what: Callable[[], object], expected: bool) -> None:
        """Waits until the target does as expected, which must be in time."""
        began = time.monotonic()
        while True:
            await self.step()
            if await what() is expected:  # type: ignore[misc]
                break
            assert time.monotonic() - began < IN_TIME
            await asyncio.sleep(0.2)
        assert (await self.syncer.plan()).pending == ()


@asynccontextmanager
async def a_scene(clusters: ClusterPool, source: ClusterSpec, target: ClusterSpec) -> AsyncIterator[Scene]:
    async with between(*await clusters.pair(source, target)) as scene:
        yield scene


@asynccontextmanager
async def between(source: Cluster, target: Cluster) -> AsyncIterator[Scene]:
    """A scene, whose accounts are gone at its end."""
    name = f"t{zlib.crc32(os.environ['PYTEST_CURRENT_TEST'].encode()):08x}{attempt()}"
    scene = Scene(Side(source), Side(target), name)
    try:
        yield scene
    finally:
        for side in (scene.source, scene.target):
            for state in (await side.states()).values():
                for name in state.accounts:
                    if scene.options.wants(name):
                        await side.drop(name)
            await side.client.close()
