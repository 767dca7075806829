"""What the accounts of both sides may do, one line for each right; found out without doing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from replicator.aio.bounded import bounded
from replicator.client.discovery import Discovery
from replicator.client.rights import denies_creation, denies_reading, denies_sending
from replicator.client.system_topics import INTERNAL_PREFIX
from replicator.connector.context import ConnectorContext
from replicator.connector.permissions import Right, ask_rights
from replicator.errors import ClientError, ProtocolError
from replicator.operate.doctor.finding import Finding, bad, good, unchecked
from replicator.routing.parked import KINDS
from replicator.routing.plan import TopicPlan
from replicator.settings import Settings

__all__ = ["Answer", "examine_rights", "judge_rights"]

#: Topics whose rights are asked for at a time, over all brokers; each answer takes a broker next to nothing.
_AT_ONCE: Final = 32
#: Topics of which one line each says that a right is missing.
_NAMED: Final = 10
_ADVICE: Final = "grant the account what docs/ACL.md lists, or leave the topic out with --exclude-topics"
_OF_WAITING: Final = "grant the account what docs/ACL.md lists, or leave pending out of --sync"
_SYSTEM: Final = "grant PUB, SUB, GET and CREATE on replicator_sys_*, or run a single worker with --standalone"

#: A topic, and why the right to it is denied; empty where it is not.
Answer = tuple[str, str]


async def examine_rights(
    settings: Settings, plans: Sequence[TopicPlan], context: ConnectorContext
) -> list[Finding]:
    """Each right that the copy of `plans` needs, and those to the group's system topics."""
    accounts = {"source": context.source.cluster.account, "target": context.target.cluster.account}
    answers: dict[Right, list[Answer]] = {right: [] for right in Right if accounts[right.side]}
    failures: list[Answer] = []

    async def ask(plan: TopicPlan) -> None:
        try:
            async for right, why in ask_rights(plan, context):
                answers[right].append((plan.topic if right is Right.READ else plan.target_topic, why))
        except (ClientError, ProtocolError) as error:
            failures.append((plan.topic, error.message))

    await bounded(ask, plans, at_once=_AT_ONCE)
    findings = [*_no_accounts(accounts), *judge_rights(accounts, answers)]
    findings += [
        unchecked("rights", topic, f"the accounts' rights to it, because {why}") for topic, why in failures
    ]
    if not settings.standalone:
        side = context.source if settings.coordination == "source" else context.target
        findings += await _system(settings, settings.coordination, side)
    if accounts["target"] and "groups" in settings.sync:
        message = "whether it may write groups and offsets, because no request tells that without writing them"
        findings.append(unchecked("rights", f"target account {accounts['target']}", message, "see docs/ACL.md"))
    return findings


def _no_accounts(accounts: Mapping[str, str]) -> Iterator[Finding]:
    for side, account in accounts.items():
        if not account:
            yield good("rights", f"{side} account", "none is set, and the brokers ask for none")


def judge_rights(accounts: Mapping[str, str], answers: Mapping[Right, Sequence[Answer]]) -> Iterator[Finding]:
    """Of the answers about each right, by topic; of `accounts` by side."""
    for right, given in answers.items():
        subject = f"{right.side} account {accounts[right.side]}"
        denied = [(topic, why) for topic, why in given if why]
        for topic, why in denied[:_NAMED]:
            advice = _OF_WAITING if topic in KINDS or topic.startswith(INTERNAL_PREFIX) else _ADVICE
            yield bad("rights", subject, f"it may not {right.verb} topic {topic} ({why})", advice)
        if len(denied) > _NAMED:
            yield bad("rights", subject, f"nor {right.verb} {len(denied) - _NAMED} more topics", _ADVICE)
        if given and not denied:
            yield good("rights", subject, f"it may {right.verb} {_count(given)}")


def _count(given: Sequence[Answer]) -> str:
    return f"topic {given[0][0]}" if len(given) == 1 else f"all {len(given)} topics that were asked about"


async def _system(settings: Settings, side: str, cluster: Discovery) -> Iterable[Finding]:
    """The rights by which workers find each other."""
    account = cluster.cluster.account
    if not account:
        return []
    subject = f"{side} account {account}"
    names = (settings.source_online_topic, settings.sink_online_topic, settings.control_topic)
    try:
        denied = {name: why for name in names if (why := await _denies_system(name, cluster))}
    except (ClientError, ProtocolError) as error:
        message = f"whether it may use the group's system topics, because {error.message}"
        return [unchecked("rights", subject, message)]
    if not denied:
        return [good("rights", subject, "it may use the group's system topics")]
    return [bad("rights", subject, f"it may not use {name} ({why})", _SYSTEM) for name, why in denied.items()]


async def _denies_system(topic: str, cluster: Discovery) -> str:
    """Why the account may not use a system topic, or create it where it is not there; asked of one broker."""
    client = cluster.cluster
    for broker, held in cluster.topics.items():
        if topic in held:
            return await denies_sending(client.writer(broker), topic) or await denies_reading(
                client.reader(broker), topic
            )
    for broker in sorted(cluster.masters):
        return await denies_creation(client.writer(broker), topic, cluster=cluster.cluster_name)
    return ""
