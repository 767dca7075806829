"""Accounts to test with: made at will, and applied to a target that is a dictionary."""

from __future__ import annotations

import dataclasses
from typing import Final

from hypothesis import strategies as st

from acl_sync.model import (
    ALL,
    GET,
    PUB,
    SUB,
    Account,
    AclState,
    Decision,
    Dialect,
    Kind,
    Pattern,
    Rule,
    Secret,
    ordered,
)
from acl_sync.ownership import Origin, Ownership
from acl_sync.plan import Action, Verb

__all__ = ["NAMES", "Store", "account", "acl1_accounts", "acl2_accounts", "states", "topic"]

#: Of topics and groups. Prefixes of each other, since prefixes are what goes wrong.
NAMES: Final = ("a", "ab", "abc", "b", "bc", "other")
IPS: Final = ("10.0.0.1", "10.0.0.0/8", "192.168.1.1")
ACCOUNTS: Final = ("account-1", "account-2", "account-3")
SECRETS: Final = ("secret-one", "secret-two")


def account(name: str = "account-1", *rules: Rule, secret: str = "secret-one", **more: object) -> Account:
    """An account with these rules."""
    plain = Account(name=name, secret=Secret(secret), rules=ordered(rules))
    return dataclasses.replace(plain, **more)  # type: ignore[arg-type]


def topic(name: str, *actions: str, deny: bool = False) -> Rule:
    """A literal rule of a topic."""
    decision = Decision.DENY if deny else Decision.ALLOW
    return Rule(kind=Kind.TOPIC, name=name, actions=frozenset(actions), decision=decision)


_perms = st.frozensets(st.sampled_from([PUB, SUB]))


@st.composite
def _acl1_rule(draw: st.DrawFn) -> Rule:
    kind = draw(st.sampled_from([Kind.TOPIC, Kind.GROUP]))
    perms = draw(_perms)
    if kind is Kind.GROUP:
        perms &= {SUB}
    name = draw(st.sampled_from([*NAMES[:4], "a*", "*"]))
    if not perms:
        return Rule(kind=kind, name=name, actions=frozenset({ALL}), decision=Decision.DENY)
    return Rule(kind=kind, name=name, actions=perms)


@st.composite
def _acl2_rule(draw: st.DrawFn) -> Rule:
    kind = draw(st.sampled_from([Kind.TOPIC, Kind.TOPIC, Kind.GROUP, Kind.CLUSTER, Kind.ANY]))
    pattern = draw(st.sampled_from(list(Pattern))) if kind is not Kind.ANY else Pattern.ANY
    name = "" if pattern is Pattern.ANY else draw(st.sampled_from([*NAMES[:4], "a=b", "%RETRY%a"]))
    actions = draw(st.frozensets(st.sampled_from([ALL, PUB, SUB, GET, "Create", "Update"]), min_size=1))
    return Rule(
        kind=kind,
        pattern=pattern,
        name=name,
        actions=actions,
        decision=draw(st.sampled_from([Decision.ALLOW, Decision.ALLOW, Decision.DENY])),
        source_ips=draw(st.one_of(st.just(frozenset()), st.frozensets(st.sampled_from(IPS), min_size=1))),
        default=draw(st.booleans()),
    )


@st.composite
def acl1_accounts(draw: st.DrawFn, name: str = "account-1") -> Account:
    """Accounts of ACL 1.0, canonical as they are read."""
    rules = {(rule.kind, rule.name): rule for rule in draw(st.lists(_acl1_rule(), max_size=5))}
    return account(
        name,
        *rules.values(),
        secret=draw(st.sampled_from(SECRETS)),
        admin=draw(st.booleans()),
        topic_default=draw(_perms),
        group_default=draw(_perms) & {SUB},
        white=draw(st.sampled_from(["", "10.0.0.1", "192.168.0.*"])),
    )


@st.composite
def acl2_accounts(draw: st.DrawFn, name: str = "account-1") -> Account:
    """Users of ACL 2.0."""
    rules = {(rule.policy, rule.resource): rule for rule in draw(st.lists(_acl2_rule(), max_size=5))}
    return account(
        name,
        *rules.values(),
        secret=draw(st.sampled_from(SECRETS)),
        admin=draw(st.booleans()),
        enabled=draw(st.sampled_from([True, True, False])),
    )


@st.composite
def states(draw: st.DrawFn, dialect: Dialect) -> AclState:
    """What a broker may hold."""
    one = acl1_accounts if dialect is Dialect.ACL1 else acl2_accounts
    names = draw(st.frozensets(st.sampled_from(ACCOUNTS)))
    white = (
        draw(st.frozensets(st.sampled_from(["10.9.9.9", "10.8.8.*"]))) if dialect is Dialect.ACL1 else frozenset()
    )
    return AclState(dialect=dialect, accounts={name: draw(one(name)) for name in names}, white=white)


class Store:
    """Brokers of a target that do what they are told."""

    def __init__(self, states: dict[str, AclState]) -> None:
        self.states = dict(states)

    def apply(self, actions: tuple[Action, ...], owned: Ownership) -> None:
        """As the syncer does on brokers."""
        for action in actions:
            state = self.states[action.broker]
            accounts = dict(state.accounts)
            if action.verb is Verb.DELETE:
                owned.deleted(action.broker, accounts.pop(action.account))
            elif action.verb is Verb.FORGET:
                owned.disown(action.broker, action.account)
            elif action.verb is Verb.WHITE_LIST:
                owned.own_white(action.broker, action.owned_white)
                state = dataclasses.replace(state, white=action.white)
            else:
                origin = Origin.CREATED if action.verb is Verb.CREATE else Origin.ADOPTED
                owned.own(action.broker, action.account, origin)
                if action.after is not None:
                    accounts[action.account] = action.after
            self.states[action.broker] = dataclasses.replace(state, accounts=accounts)
