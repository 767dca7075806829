"""How the rules of an account become others: at no moment may it do what it may neither before nor after."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings

from acl_sync import acl2
from acl_sync.model import PUB, SUB, Account, Kind, Pattern, Rule, ordered
from acl_sync.semantics import OPERATIONS, may_allow
from replicator.protocol.codes import Request
from tests.support.accounts import IPS, NAMES, account, acl2_accounts, topic


class Broker:
    """Keeps the rules of one account as 5.x does, and each set that it ever had."""

    def __init__(self, before: Account) -> None:
        self.before = before
        self.rules = list(before.rules)
        self.history: list[tuple[Rule, ...]] = []

    async def ask(self, _: object, code: int, fields: Mapping[str, str], *, body: Any = None, **_more: Any) -> None:
        if code == Request.AUTH_DELETE_ACL:
            which = fields["policyType"], fields["resource"]
            self.rules = [r for r in self.rules if which[1] and (r.policy, r.resource) != which]
        elif code in (Request.AUTH_UPDATE_ACL, Request.AUTH_CREATE_ACL):
            users = [{"username": "account-1"}]
            new = acl2.parse(users, [body]).accounts["account-1"].rules
            about = {(rule.policy, rule.resource) for rule in new}
            self.rules = [r for r in self.rules if (r.policy, r.resource) not in about] + list(new)
        self.history.append(ordered(self.rules))


def written(before: Account, after: Account) -> list[tuple[Rule, ...]]:
    """What the broker holds after each request."""
    broker = Broker(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acl2, "ask", broker.ask)
        asyncio.run(acl2.write_account(broker, after, before=before))  # type: ignore[arg-type]
    assert ordered(broker.rules) == after.rules
    return broker.history


@settings(max_examples=100)
@given(acl2_accounts(), acl2_accounts())
def test_no_right_on_the_way_that_neither_end_has(one: Account, other: Account) -> None:
    other = dataclasses.replace(one, rules=other.rules)
    for rules in written(one, other):
        between = dataclasses.replace(one, rules=rules)
        for operation, name, ip in product(OPERATIONS, NAMES, ("", *IPS[::2])):
            for kind in operation.kinds:
                if may_allow(between, operation.actions, kind, name, ip):
                    assert any(may_allow(each, operation.actions, kind, name, ip) for each in (one, other))


def test_a_denial_goes_with_the_default_that_it_was_an_exception_of() -> None:
    everywhere = dataclasses.replace(topic("", PUB), default=True, pattern=Pattern.ANY)
    before = account("account-1", everywhere, topic("payroll", PUB, deny=True))
    after = account("account-1", topic("orders", PUB, SUB))
    for rules in written(before, after):
        between = dataclasses.replace(before, rules=rules)
        assert not may_allow(between, frozenset({PUB}), Kind.TOPIC, "payroll")


def test_a_denial_that_goes_alone_is_one_request() -> None:
    before = account("account-1", topic("a", PUB), topic("b", PUB, deny=True))
    assert len(written(before, account("account-1", topic("a", PUB)))) == 1
