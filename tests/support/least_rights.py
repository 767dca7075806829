"""Accounts that may do what a replicator must, and no more, as docs/ACL.md has it."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from acl_sync.model import GET, PUB, SUB, Account, Kind, Pattern, Rule
from replicator.metadata.pop_checkpoints import REVIVE_PREFIX
from replicator.routing.parked import KINDS
from tests.support.accounts import account
from tests.support.acl_scene import MIDDLE, NEW, Side, a_scene
from tests.support.clusters import ClusterPool
from tests.support.traffic import create_topic, produce
from tests.support.worker import SYNC_QUICKLY, Worker, signing

__all__ = [
    "CREATE",
    "READS_POP",
    "READS_RETRIES",
    "WRITES_RETRIES",
    "Guarded",
    "guarded",
    "right",
    "with_groups",
    "without",
]

CREATE: Final = "Create"


class Guarded:
    """Two clusters with ACL 2.0, and a user at each who may do what a replicator of `topic` and `group` must."""

    def __init__(self, source: Side, target: Side, stem: str) -> None:
        self.source = source
        self.target = target
        self.topic = f"{stem}-orders"
        self.group = f"{stem}-group"
        self.reader = account(
            f"{stem}-reader",
            right(Kind.TOPIC, "replicator_sys_", PUB, SUB, GET, CREATE),
            right(Kind.TOPIC, stem, SUB, GET),
            *(right(Kind.TOPIC, name, SUB, GET) for name in KINDS),
            right(Kind.GROUP, "", SUB),
            secret="secret of who reads",
        )
        self.writer = account(
            f"{stem}-writer",
            right(Kind.TOPIC, "replicator_sys_", PUB, SUB, GET, CREATE),
            right(Kind.TOPIC, stem, PUB, SUB, GET, CREATE),
            right(Kind.GROUP, "", SUB),
            secret="secret of who writes",
        )

    @property
    def environment(self) -> dict[str, str]:
        """Of a replicator in the names of both."""
        return {
            **signing("SOURCE", self.reader.name, self.reader.secret.reveal()),
            **signing("TARGET", self.writer.name, self.writer.secret.reveal()),
        }

    def worker(self, directory: Path, *flags: str) -> Worker:
        """A replicator in the names of both."""
        every = ("--topics", self.topic, "--sync-groups", self.group, *SYNC_QUICKLY)
        clusters = self.source.cluster, self.target.cluster
        return Worker(*clusters, directory, *every, *flags, environment=self.environment)


@asynccontextmanager
async def guarded(clusters: ClusterPool) -> AsyncIterator[Guarded]:
    async with a_scene(clusters, MIDDLE, NEW) as scene:
        here = Guarded(scene.source, scene.target, scene.name)
        await here.source.put(here.reader)
        await here.target.put(here.writer)
        await create_topic(here.source.cluster, here.topic, queues=2)
        await produce(here.source.cluster, here.topic, 100)
        yield here


def right(kind: Kind, prefix: str, *actions: str) -> Rule:
    pattern = Pattern.PREFIXED if prefix else Pattern.ANY
    return Rule(kind=kind, pattern=pattern, name=prefix, actions=frozenset(actions))


#: What of the records of POP a route reads at the source, beside what it reads of messages that wait.
READS_POP: Final = (right(Kind.TOPIC, REVIVE_PREFIX, SUB, GET),)
#: What retry topics take: brokers ask for rights to the group of the rest of their name, and to no topic.
READS_RETRIES: Final = right(Kind.GROUP, "", SUB, GET)
WRITES_RETRIES: Final = right(Kind.GROUP, "", SUB, GET, CREATE)


def with_groups(who: Account, of_groups: Rule, *more: Rule) -> Account:
    """An account with another rule of groups than what every route needs."""
    return dataclasses.replace(who, rules=(*(rule for rule in who.rules if rule.name), of_groups, *more))


def without(who: Account, action: str) -> tuple[Rule, ...]:
    return tuple(dataclasses.replace(rule, actions=rule.actions - {action}) for rule in who.rules)
