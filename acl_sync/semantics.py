"""What brokers allow, as predicates: what a translation must never widen.

Sources: `PlainPermissionManager` and `AclAuthorizationHandler` in apache/rocketmq. Where several rules of 2.0
match, which one decides differs between versions (in 5.3 the shorter prefix wins, later the longer one), so that
there are two bounds instead of one answer: `surely_allows` in whatever order, `may_allow` in any.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from acl_sync.model import ALL, PUB, SUB, Account, Decision, Kind, Rule

__all__ = ["ADMIN", "FREE", "OPERATIONS", "Operation", "acl1_allows", "may_allow", "surely_allows"]

#: What 1.0 asks for instead of PUB and SUB.
ADMIN: Final = "admin"
FREE: Final = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a client does to a resource: the right that 1.0 asks for, and the actions of which 2.0 wants one."""

    name: str
    kinds: frozenset[Kind]
    right: str
    actions: frozenset[str]


_TOPICS = frozenset({Kind.TOPIC})
_GROUPS = frozenset({Kind.GROUP})
_BOTH = _TOPICS | _GROUPS

OPERATIONS: Final = (
    Operation("send", _TOPICS, PUB, frozenset({PUB})),
    Operation("pull", _BOTH, SUB, frozenset({SUB})),
    Operation("query", _TOPICS, SUB, frozenset({SUB, "Get"})),
    Operation("commit an offset", _BOTH, SUB, frozenset({SUB, "Update"})),
    Operation("ask for offsets", _TOPICS, FREE, frozenset({"Get"})),
    Operation("create", _BOTH, ADMIN, frozenset({"Create"})),
    Operation("delete", _BOTH, ADMIN, frozenset({"Delete"})),
    Operation("change a broker", frozenset({Kind.CLUSTER}), ADMIN, frozenset({"Update"})),
)


def acl1_allows(account: Account, operation: Operation, kind: Kind, name: str) -> bool:
    """Whether 1.0 lets the signed requests of `account` pass, from an address on no white list."""
    if operation.right == FREE:
        return True
    if operation.right == ADMIN:
        # The resource is not asked about: these requests carry none that is checked.
        return account.admin
    if account.admin and not account.rules:
        return True
    found = [rule for rule in account.rules if rule.covers(kind, name)]
    if found:
        return found[-1].decision is Decision.ALLOW and operation.right in found[-1].actions
    perms = account.group_default if kind is Kind.GROUP else account.topic_default
    return operation.right in perms


def surely_allows(account: Account, actions: frozenset[str], kind: Kind, name: str, ip: str = "") -> bool:
    """Whether 2.0 allows it, whichever of the matching rules decides."""
    if not account.enabled:
        return False
    decisions = _decisions(account.rules, actions, kind, name, ip)
    return account.admin or decisions == {Decision.ALLOW}


def may_allow(account: Account, actions: frozenset[str], kind: Kind, name: str, ip: str = "") -> bool:
    """Whether some version of 2.0 allows it."""
    return account.enabled and (
        account.admin or Decision.ALLOW in _decisions(account.rules, actions, kind, name, ip)
    )


def _decisions(rules: Iterable[Rule], actions: frozenset[str], kind: Kind, name: str, ip: str) -> set[Decision]:
    matching = [
        rule
        for rule in rules
        if rule.covers(kind, name)
        and (ALL in rule.actions or rule.actions & actions)
        and (not rule.source_ips or any(_within(ip, each) for each in rule.source_ips))
    ]
    custom = {rule.decision for rule in matching if not rule.default}
    return custom or {rule.decision for rule in matching}


def _within(ip: str, network: str) -> bool:
    if "/" not in network:
        return ip == network
    try:
        return ipaddress.ip_address(ip) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
