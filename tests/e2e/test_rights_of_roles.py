"""Rights that only some routes need, as docs/ACL.md has them: with them a request is done, without one refused.

What it asks with is what the replicator asks with, in the name of an account that has the rights of every route and
those of one role more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

import pytest

from acl_sync import broker_acl
from acl_sync.model import GET, PUB, SUB, Dialect, Kind, Rule
from replicator.client.brokers import max_offset, offset_at, offset_near
from replicator.client.cluster import Cluster
from replicator.client.groups import delete_group, forbid, write_group
from replicator.client.offsets import commit_offset
from replicator.client.pull import GROUP, pull
from replicator.client.security import Credentials
from replicator.client.send import send_single
from replicator.client.system_topics import RETRY_PREFIX
from replicator.client.topics import TopicConfig, delete_topic, write_topic
from replicator.errors import BrokerRefused
from replicator.metadata.pop_checkpoints import REVIVE_PREFIX
from replicator.protocol.batch import header_fields
from replicator.protocol.message import StoredMessage
from replicator.routing.dead_letter import DeadLetters
from replicator.routing.queue_map import Queue
from tests.support.accounts import account
from tests.support.clusters import ClusterPool
from tests.support.least_rights import CREATE, READS_RETRIES, WRITES_RETRIES, Guarded, guarded, right
from tests.support.offsets import make_group
from tests.support.traffic import create_topic
from tests.support.worker import until

pytestmark = pytest.mark.side_by_side("guarded")

DELETE: Final = "Delete"
UPDATE: Final = "Update"
NUMBERS = count()
MESSAGE: Final = StoredMessage(0, 0, 0, 0, 0, 0, 0, b"\0\0\0\5hello", b"KEYS\1k\2")

Ask = Callable[[Guarded, Cluster], Awaitable[object]]


async def reads_what_pop_consumers_hold(here: Guarded, client: Cluster) -> None:
    topic = f"{REVIVE_PREFIX}{here.source.cluster.spec.name}"
    reader = client.reader("east-a")
    await offset_near(reader, topic, 0, 0)
    await pull(reader, topic, 0, 0)


async def reads_accounts(_: Guarded, client: Cluster) -> None:
    broker = client.writer("east-a")
    assert (await broker_acl.read(broker, await broker_acl.detect(broker))).accounts


async def writes_accounts(here: Guarded, client: Cluster) -> None:
    """One with rights, changed, and deleted, as `acl` does it; that takes a Super user if it is to become one."""
    broker = client.writer("west-a")
    speech = await broker_acl.detect(broker)
    made = account(f"{here.topic}-{next(NUMBERS)}", right(Kind.TOPIC, here.topic, SUB))
    await broker_acl.write_account(broker, Dialect.ACL2, made, before=None)
    changed = dataclasses.replace(made, rules=(right(Kind.TOPIC, here.topic, PUB),))
    found = (await broker_acl.read(broker, speech)).accounts[made.name]
    await broker_acl.write_account(broker, Dialect.ACL2, changed, before=found)
    with pytest.raises(BrokerRefused):
        await broker_acl.write_account(
            broker, Dialect.ACL2, dataclasses.replace(changed, admin=True), before=changed
        )
    await broker_acl.delete_account(broker, Dialect.ACL2, made.name)


async def deletes_a_topic(here: Guarded, client: Cluster) -> None:
    name = f"{here.topic}-{next(NUMBERS)}"
    await here.target.create(name)
    await delete_topic(client.writer("west-a"), name)


async def deletes_a_group(here: Guarded, client: Cluster) -> None:
    name = f"{here.group}-{next(NUMBERS)}"
    await make_group(here.target.cluster, name)
    await delete_group(client.writer("west-a"), name)


async def forbids_a_group_a_topic(here: Guarded, client: Cluster) -> None:
    name = f"{here.topic}-{next(NUMBERS)}"
    await here.target.create(name)
    await make_group(here.target.cluster, here.group)
    await forbid(client.writer("west-a"), here.group, name, readable=False)


async def reads_retry_topics(here: Guarded, client: Cluster) -> None:
    topic, reader = f"{RETRY_PREFIX}{here.group}", client.reader("east-a")
    await create_topic(here.source.cluster, topic, queues=1)
    await max_offset(reader, topic, 0)
    await pull(reader, topic, 0, 0)


async def writes_retry_topics(here: Guarded, client: Cluster) -> None:
    """Those that are copied, and those that a failover puts into them what POP consumers hold."""
    group, writer = f"{here.group}-{next(NUMBERS)}", client.writer("west-a")
    topic = f"{RETRY_PREFIX}{group}"
    await write_group(writer, {"groupName": group})
    await write_topic(writer, TopicConfig(name=topic, read_queues=1, write_queues=1))
    fields = header_fields(group=GROUP, topic=topic, queue_id=0, sys_flag=0, born_timestamp=1, reconsume_times=1)
    await send_single(writer, fields | {"h": "0", "i": "", "m": "false"}, b"again")
    reader = client.reader("west-a")
    await offset_at(reader, topic, 0, 1)
    await pull(reader, topic, 0, 0)
    await commit_offset(writer, group, topic, 0, 0)


async def writes_dead_letters(here: Guarded, client: Cluster) -> None:
    """And reads them, for the page."""
    topic = f"replicator_sys_dead_letter_{here.topic}_{next(NUMBERS)}"
    letters = DeadLetters(client, topic, cluster="east", limit=lambda _: 1 << 20)
    await letters.put("west-a", here.topic, Queue("east-a", 0), MESSAGE, "too large")
    await max_offset(client.reader("west-a"), topic, 0)
    await pull(client.reader("west-a"), topic, 0, 0)


@dataclass(frozen=True)
class Role:
    """What is asked for at a side, and the rights that it takes beside those of every route."""

    ask: Ask
    rules: tuple[Rule, ...]
    at_source: bool = False
    #: What of the rights of every route it can do without: that to topics which begin so.
    less: str | None = None


ROLES: Final = (
    Role(reads_what_pop_consumers_hold, (right(Kind.TOPIC, REVIVE_PREFIX, SUB, GET),), at_source=True),
    Role(reads_accounts, (right(Kind.CLUSTER, "", GET),), at_source=True),
    Role(writes_accounts, (right(Kind.CLUSTER, "", GET, UPDATE),)),
    Role(deletes_a_topic, (right(Kind.TOPIC, "", DELETE),)),
    Role(deletes_a_group, (right(Kind.GROUP, "", DELETE),)),
    Role(forbids_a_group_a_topic, (right(Kind.GROUP, "", UPDATE), right(Kind.TOPIC, "", UPDATE))),
    Role(reads_retry_topics, (READS_RETRIES,), at_source=True, less=""),
    Role(writes_retry_topics, (WRITES_RETRIES,), less=""),
    Role(
        writes_dead_letters,
        (right(Kind.TOPIC, "replicator_sys_dead_letter", PUB, SUB, GET, CREATE),),
        less="replicator_sys_",
    ),
)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.ask.__name__)
async def test_rights_of_a_role(clusters: ClusterPool, role: Role) -> None:
    async with guarded(clusters) as here:
        side, who = (here.source, here.reader) if role.at_source else (here.target, here.writer)
        known = tuple(rule for rule in who.rules if rule.name != role.less)
        who = dataclasses.replace(who, name=f"{who.name}-more")
        client = side.connect(Credentials(who.name, who.secret.reveal()))
        try:
            await side.put(dataclasses.replace(who, rules=known + role.rules))
            await until(partial(_tried, here, client, role.ask, ""), what="it is done")
            for rule in role.rules:
                for action in sorted(rule.actions):
                    less = dataclasses.replace(rule, actions=rule.actions - {action})
                    rules = (less if each is rule else each for each in role.rules)
                    left = known + tuple(each for each in rules if each.actions)
                    await side.put(dataclasses.replace(who, rules=left))
                    what = f"it is refused without {rule.kind} {rule.name} {action}"
                    await until(partial(_tried, here, client, role.ask, who.name), what=what, seconds=20)
        finally:
            await client.close()


async def _tried(here: Guarded, client: Cluster, ask: Ask, refused: str) -> bool:
    """Whether it is done, or refused to the account of that name, which the broker names."""
    await client.refresh()
    try:
        await ask(here, client)
    except BrokerRefused as error:
        return bool(refused) and error.code == 16 and refused in str(error)
    return not refused
