"""Translations never widen, whichever rule a broker lets decide; what can be said exactly is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acl_sync.model import ALL, GET, PUB, SUB, Account, AclState, Decision, Dialect, Kind, Pattern, Rule
from acl_sync.semantics import ADMIN, FREE, OPERATIONS, acl1_allows, may_allow, surely_allows
from acl_sync.translate import translate
from tests.support.accounts import NAMES, account, acl1_accounts, acl2_accounts, topic

CHECKED = [(each, kind) for each in OPERATIONS for kind in sorted(each.kinds) if each.right != FREE]
EVERYWHERE = ("10.0.0.1", "10.7.7.7", "192.168.1.1", "172.16.0.1")


def translated(source: Account, to: Dialect) -> tuple[Account | None, list[str]]:
    dialect = Dialect.ACL1 if to is Dialect.ACL2 else Dialect.ACL2
    found = translate(AclState(dialect=dialect, accounts={source.name: source}), to)
    return found.accounts.get(source.name), [note.text for note in found.notes]


@given(acl1_accounts())
def test_to_acl2_never_widens(source: Account) -> None:
    """Whatever some version of 2.0 allows afterwards, 1.0 allowed to whoever signed."""
    target, _ = translated(source, Dialect.ACL2)
    assert target is not None
    for operation in OPERATIONS:
        for kind in operation.kinds:
            for name in NAMES:
                if may_allow(target, operation.actions, kind, name, "10.0.0.1"):
                    assert acl1_allows(source, operation, kind, name), (operation.name, kind, name)


@given(acl1_accounts())
def test_to_acl2_keeps_messages(source: Account) -> None:
    """Sends and pulls that 1.0 allowed are allowed by every version of 2.0."""
    target, _ = translated(source, Dialect.ACL2)
    assert target is not None
    for operation, kind in CHECKED:
        if operation.right != ADMIN:
            for name in NAMES:
                before = acl1_allows(source, operation, kind, name)
                assert surely_allows(target, operation.actions, kind, name) == before, (operation.name, kind, name)


@given(acl2_accounts())
def test_to_acl1_never_widens(source: Account) -> None:
    """Whatever 1.0 allows afterwards, every version of 2.0 allowed from every address."""
    target, _ = translated(source, Dialect.ACL1)
    if target is None:
        return
    for operation, kind in CHECKED:
        for name in (*NAMES, "a=b"):
            if acl1_allows(target, operation, kind, name):
                for ip in EVERYWHERE:
                    assert surely_allows(source, operation.actions, kind, name, ip), (
                        operation.name,
                        kind,
                        name,
                        ip,
                    )


@given(acl1_accounts())
def test_there_and_back(source: Account) -> None:
    """What went from 1.0 to 2.0 comes back with the same rights to messages."""
    there, _ = translated(source, Dialect.ACL2)
    assert there is not None
    back, _ = translated(there, Dialect.ACL1)
    assert back is not None
    for operation, kind in CHECKED:
        if operation.right != ADMIN:
            for name in NAMES:
                assert acl1_allows(back, operation, kind, name) == acl1_allows(source, operation, kind, name)


@given(st.one_of(acl1_accounts(), acl2_accounts()))
def test_the_password_stays(source: Account) -> None:
    """Or there is no account, and a note says why."""
    for to in (Dialect.ACL1, Dialect.ACL2):
        found, notes = translated(source, to)
        assert found.secret == source.secret if found is not None else notes


def test_a_perm_that_lacks_what_the_default_has() -> None:
    """The Default policy would allow it, where the Custom one did not deny it."""
    source = account("account-1", topic("orders", PUB), topic_default=frozenset({PUB, SUB}))
    target, notes = translated(source, Dialect.ACL2)
    assert target is not None
    assert [str(rule) for rule in target.rules] == [
        "Custom Topic:orders Get,Sub Deny",
        "Default Topic:* Get,Pub,Sub Allow",
    ]
    assert "proxy" in notes[0]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (account(white="10.0.0.1"), "no white addresses"),
        (account("account-1", topic("a", PUB), admin=True), "becomes a user without admin"),
        (account("account-1", topic("a*", PUB)), "nothing can be called so"),
    ],
    ids=["white", "bound admin", "star"],
)
def test_what_acl2_cannot_say(source: Account, words: str) -> None:
    """Is narrowed and noted."""
    target, notes = translated(source, Dialect.ACL2)
    assert target is not None
    assert words in notes[0]
    assert not target.admin
    assert not any(rule.pattern is Pattern.PREFIXED for rule in target.rules)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            Rule(kind=Kind.TOPIC, pattern=Pattern.PREFIXED, name="or", actions=frozenset({PUB})),
            "Custom Topic:or* Pub",
        ),
        (
            Rule(kind=Kind.TOPIC, name="a", actions=frozenset({PUB}), source_ips=frozenset({"10.0.0.1"})),
            "addresses",
        ),
        (Rule(kind=Kind.TOPIC, name="a=b", actions=frozenset({PUB})), "cannot write that name"),
        (Rule(kind=Kind.CLUSTER, pattern=Pattern.ANY, actions=frozenset({GET})), "of admins only"),
    ],
    ids=["prefix", "address", "name", "cluster"],
)
def test_what_acl1_cannot_say(rule: Rule, words: str) -> None:
    """Is left out, and the policy is named."""
    target, notes = translated(account("account-1", rule), Dialect.ACL1)
    assert target is not None
    assert not target.rules
    assert not target.topic_default
    assert "policy Custom" in notes[0]
    assert words in notes[0]


def test_a_denied_prefix_takes_the_default_away() -> None:
    """1.0 knows no prefixes, so nobody may do by default what is denied for some."""
    everything = Rule(kind=Kind.TOPIC, pattern=Pattern.ANY, actions=frozenset({ALL}))
    denied = Rule(
        kind=Kind.TOPIC, pattern=Pattern.PREFIXED, name="pay", actions=frozenset({SUB}), decision=Decision.DENY
    )
    target, notes = translated(account("account-1", everything, denied), Dialect.ACL1)
    assert target is not None
    assert target.topic_default == {PUB}
    assert "takes the default away" in notes[0]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (account(enabled=False), "cannot disable"),
        (account("short"), "7 characters"),
        (account(secret="short"), "7 characters"),
    ],
    ids=["disabled", "name", "secret"],
)
def test_who_cannot_be_in_acl1(source: Account, words: str) -> None:
    """Is left out, with the reason."""
    target, notes = translated(source, Dialect.ACL1)
    assert target is None
    assert words in notes[0]


ANYBODY = Rule(kind=Kind.TOPIC, pattern=Pattern.ANY, actions=frozenset({ALL}))


def test_denied_for_some_addresses_is_denied_for_all() -> None:
    """1.0 knows no addresses."""
    denied = Rule(
        kind=Kind.TOPIC,
        name="a",
        actions=frozenset({PUB}),
        decision=Decision.DENY,
        source_ips=frozenset({"10.0.0.1"}),
    )
    target, notes = translated(account("account-1", ANYBODY, denied), Dialect.ACL1)
    assert target is not None
    assert [str(rule) for rule in target.rules] == ["Custom Topic:a Sub Allow"]
    assert "counts for all addresses" in notes[0]


def test_denied_under_a_name_that_acl1_cannot_write() -> None:
    """Then nobody may do it by default."""
    target, _ = translated(account("account-1", ANYBODY, topic("a=b", PUB, deny=True)), Dialect.ACL1)
    assert target is not None
    assert target.topic_default == {SUB}
    assert not target.rules
