"""Order configurations: each name server of the target has the source's, by where the queues are copied. Pure.

They name brokers and how many queues of each, `a:8;b:8`, and producers count the queues in this order: one that
chooses its queue by a key goes on in the copy of the queue that it chose at the source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from replicator.metadata.action import Action, DropOrder, WriteOrder
from replicator.metadata.ledger import (
    DELETED,
    DRIFT,
    Finding,
    Key,
    Ledger,
    Planned,
    Settings,
    compare,
    judged,
    unless_repaired,
)
from replicator.metadata.topics import KIND, TopicPolicy
from replicator.protocol import properties
from replicator.routing.plan import TopicPlan
from replicator.routing.queue_map import QueueMap

__all__ = ["Orders", "is_order", "items_of", "order_of", "plan_orders", "translated"]

#: What an item is called, with the topic's name behind it; that has no spaces.
_ITEM: Final = "order configuration of "
#: What is compared of it.
_QUEUES: Final = "queues"

#: Why actions are blocked.
_UNREADABLE: Final = "the source's names no queues: correct it there with `mqadmin updateOrderConf`"
_NOT_COPIED: Final = (
    "the source's names {brokers}, of which no queues are copied: it waits for them; if they are gone for good,"
    " take them out of it there with `mqadmin updateOrderConf`"
)
_SILENT: Final = (
    "the source may still have it: name server {addresses} does not answer there: wait for it, or take it out of"
    " the settings if it is gone for good"
)
_EMPTIED: Final = (
    "all {count} that were synced are gone at the source at once, as when its name servers have lost their disks:"
    " delete it here, if it was deleted there"
)
#: The note on what the source's own name servers do not agree about.
_DIFFERS: Final = "the source's name servers have different ones"

#: The order configurations of a name server, by topic.
Orders = Mapping[str, str]


def plan_orders(
    plans: Iterable[TopicPlan],
    source: Mapping[str, Orders],
    target: Mapping[str, Orders],
    ledger: Ledger,
    *,
    silent: Collection[str],
    selects: Callable[[str], bool],
    policy: TopicPolicy,
) -> Planned:
    """What is to be done at the target's name servers: every one has every configuration.

    Args:
        source: by name server what it has; the first that has one of a topic decides.
        target: those that have answered.
        ledger: of order configurations alone.
        silent: name servers of the source that have not answered now.
        selects: as for `plan_topics`.
    """
    planned = Planned([], {})
    names = set[str]()
    for plan in plans:
        ours = order_of(plan.topic, source)
        if not ours or plan.problem:
            continue
        names.add(plan.target_topic)
        note = _DIFFERS if _differs(plan.topic, source) else ""
        for address, orders in target.items():
            current = orders.get(plan.target_topic) or None
            _plan_order(plan, ours, address, current, ledger=ledger, policy=policy, planned=planned, note=note)
    there = {topic for orders in source.values() for topic, ours in orders.items() if ours}
    gone = {
        key
        for key, entry in ledger.items()
        if entry.source not in there and selects(entry.source) and _topic(key) not in names
    }
    why = _why_kept(ledger, there, silent, policy)
    planned.actions.extend(_deletions(gone, target, ledger, policy, why))
    return planned


def order_of(topic: str, source: Mapping[str, Orders]) -> str:
    """The configuration of a topic at the first name server that has one; empty if none has."""
    return next((orders[topic] for orders in source.values() if orders.get(topic)), "")


def _differs(topic: str, source: Mapping[str, Orders]) -> bool:
    return len({_tidy(orders[topic]) for orders in source.values() if orders.get(topic)}) > 1


def translated(configuration: str, queue_map: QueueMap) -> tuple[str, str]:
    """What a topic's configuration has to be at the target, and why it can't be carried over now; empty: it can.

    The target's brokers are in the order in which the source's has those that are copied to them.
    """
    numbers = _numbers(configuration)
    if not any(numbers.values()):
        return "", _UNREADABLE
    places = {broker: place for place, broker in enumerate(numbers)}
    named = [source for source in queue_map if source.queue_id < numbers.get(source.broker, 0)]
    wanted: dict[str, int] = {}
    for source in sorted(named, key=lambda queue: (places[queue.broker], queue.queue_id)):
        target = queue_map[source]
        wanted[target.broker] = max(wanted.get(target.broker, 0), target.queue_id + 1)
    copied = {source.broker for source in named}
    lacking = [broker for broker, number in numbers.items() if number and broker not in copied]
    why = _NOT_COPIED.format(brokers=", ".join(lacking)) if lacking else ""
    return ";".join(f"{broker}:{number}" for broker, number in wanted.items()), why


def _numbers(configuration: str) -> dict[str, int]:
    """The queues of each broker; parts that are none are left out."""
    parts = (part.strip().rpartition(":") for part in configuration.split(";"))
    numbers = {broker: properties.number(count) for broker, _, count in parts if broker}
    return {broker: count for broker, count in numbers.items() if count is not None}


def _tidy(configuration: str) -> str:
    return ";".join(part.strip() for part in configuration.split(";") if part.strip())


def _plan_order(
    plan: TopicPlan,
    ours: str,
    address: str,
    current: str | None,
    *,
    ledger: Ledger,
    policy: TopicPolicy,
    planned: Planned,
    note: str,
) -> None:
    wanted, why = translated(ours, plan.queue_map)
    key = (address, f"{_ITEM}{plan.target_topic}")
    before, after = None if current is None else _settings(current), _settings(wanted)
    if why:
        blocked, repaired = why, ""
    else:
        planned.wanted[key] = (after, plan.topic)
        finding = compare(before, after, ledger.get(key))
        if finding is Finding.SAME:
            return
        # A name server takes whatever it is given: if it has another one now, somebody has given it that.
        finding = Finding.DRIFTED if finding is Finding.UNTAKEN else finding
        blocked, repaired = judged(finding, repair=policy.repair)
    planned.actions.append(
        Action(
            kind=KIND,
            broker=address,
            key=key[1],
            before=before,
            after=after,
            write=WriteOrder(plan.target_topic, wanted),
            blocked=blocked,
            note=repaired or note,
        )
    )


def _why_kept(ledger: Ledger, there: Collection[str], silent: Collection[str], policy: TopicPolicy) -> str:
    """Why nothing is deleted here that the source does not have; empty: it is."""
    if silent:
        return _SILENT.format(addresses=", ".join(sorted(silent)))
    if not policy.deletes:
        return DELETED
    synced = {entry.source for entry in ledger.values()}
    return _EMPTIED.format(count=len(synced)) if len(synced) > 1 and synced.isdisjoint(there) else ""


def _deletions(
    gone: Collection[Key], target: Mapping[str, Orders], ledger: Ledger, policy: TopicPolicy, why: str
) -> list[Action]:
    found = []
    for address, item in sorted(gone):
        topic = _topic((address, item))
        current = target.get(address, {}).get(topic)
        if current is None:
            continue
        blocked, note = why, ""
        if _settings(current) != ledger[address, item].got:  # it is somebody else's by now
            drift, note = unless_repaired(DRIFT, repair=policy.repair)
            blocked = drift or why
        found.append(
            Action(
                kind=KIND,
                broker=address,
                key=item,
                before=_settings(current),
                after=None,
                write=DropOrder(topic),
                blocked=blocked,
                note=note,
            )
        )
    return found


def is_order(key: Key) -> bool:
    """Whether an item of the ledger is an order configuration."""
    return key[1].startswith(_ITEM)


def items_of(target: Mapping[str, Orders]) -> dict[Key, Settings]:
    """What is compared of all that name servers have, as in the ledger."""
    return {
        (address, f"{_ITEM}{topic}"): _settings(value)
        for address, orders in target.items()
        for topic, value in orders.items()
    }


def _topic(key: Key) -> str:
    return key[1].removeprefix(_ITEM)


def _settings(configuration: str) -> dict[str, str]:
    return {_QUEUES: _tidy(configuration)}
