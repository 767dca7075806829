"""Plans are idempotent, convergent, and keep their hands off what is not theirs."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acl_sync.merge import merge
from acl_sync.model import PUB, Account, AclState, Dialect, Note, Secret
from acl_sync.options import AclOptions
from acl_sync.ownership import Origin, Ownership
from acl_sync.plan import AclPlan, Verb, make_plan
from tests.support.accounts import Store, account, states, topic

#: Whole worlds take long to make, most of all on a busy machine.
worlds_apart = settings(max_examples=50)

EVERYTHING = AclOptions(admins=True, deletes=True, adopt=True)
DIALECTS = st.sampled_from([Dialect.ACL1, Dialect.ACL2])
OPTIONS = st.builds(
    AclOptions,
    admins=st.booleans(),
    deletes=st.booleans(),
    adopt=st.booleans(),
    exclude=st.sampled_from([(), ("account-1",)]),
    own=st.sampled_from([frozenset(), frozenset({"account-2"})]),
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[AclState, dict[str, AclState]]:
    """A source, and a target of two brokers of the same or another kind."""
    target = draw(DIALECTS)
    return draw(DIALECTS.flatmap(states)), {name: draw(states(target)) for name in ("t-a", "t-b")}


def holding(*accounts: Account, dialect: Dialect = Dialect.ACL2, **more: object) -> AclState:
    state = AclState(dialect=dialect, accounts={each.name: each for each in accounts})
    return dataclasses.replace(state, **more)  # type: ignore[arg-type]


def plan(source: AclState, target: AclState, owned: Ownership | None = None, **options: object) -> AclPlan:
    chosen = dataclasses.replace(AclOptions(), **options)  # type: ignore[arg-type]
    return make_plan(source, {"t-a": target}, owned or Ownership(), chosen)


def verbs(made: AclPlan) -> list[tuple[Verb, str, bool]]:
    return [(action.verb, action.account, not action.blocked) for action in made.actions]


@worlds_apart
@given(worlds(), worlds(), OPTIONS)
def test_convergent(
    context: tuple[AclState, dict[str, AclState]], later: tuple[AclState, dict[str, AclState]], options: AclOptions
) -> None:
    """After a plan is done nothing is pending any more, also when the source goes on."""
    store, owned = Store(context[1]), Ownership()
    for source in (context[0], later[0]):
        store.apply(make_plan(source, store.states, owned, options).pending, owned)
        again = make_plan(source, store.states, owned, options)
        assert again.pending == ()
        assert again == make_plan(source, store.states, owned, options)


@worlds_apart
@given(worlds())
def test_all_of_it_arrives(context: tuple[AclState, dict[str, AclState]]) -> None:
    """With every permission given, each broker has what the source has."""
    source, targets = context
    store, owned = Store(targets), Ownership()
    store.apply(make_plan(source, store.states, owned, EVERYTHING).pending, owned)
    for state in store.states.values():
        if source.dialect is state.dialect:
            for name, each in source.accounts.items():
                assert state.accounts[name] == each


@worlds_apart
@given(worlds(), worlds(), OPTIONS)
def test_hands_off(
    context: tuple[AclState, dict[str, AclState]], later: tuple[AclState, dict[str, AclState]], options: AclOptions
) -> None:
    """What was there before is never deleted, and changed by opt-in only; nor are our own account and admins."""
    source, targets = context
    store, owned = Store(targets), Ownership()
    for each in (source, later[0]):
        store.apply(make_plan(each, store.states, owned, options).pending, owned)
    for broker, before in targets.items():
        after = store.states[broker]
        for name, was in before.accounts.items():
            now = after.accounts[name]
            if now != was:
                assert options.adopt or owned.accounts(broker).get(name) is Origin.ADOPTED
                assert name not in options.own
                assert options.admins or not (was.admin or now.admin)
        for name, now in after.accounts.items():
            if name not in before.accounts:
                assert options.wants(name)
                assert options.admins or not now.admin
        assert before.white <= after.white


def test_deletes_need_an_opt_in() -> None:
    """And are of what we created alone."""
    owned = Ownership()
    owned.own("t-a", "account-1", Origin.CREATED)
    owned.own("t-a", "account-2", Origin.ADOPTED)
    target = holding(account("account-1"), account("account-2"), account("account-3"))
    assert verbs(plan(holding(), target, owned)) == [
        (Verb.DELETE, "account-1", False),
        (Verb.DELETE, "account-2", False),
    ]
    made = plan(holding(), target, owned, deletes=True)
    assert verbs(made) == [(Verb.DELETE, "account-1", True), (Verb.DELETE, "account-2", False)]
    assert "before" in made.blocked[0].blocked


def test_nothing_is_gone_while_a_broker_is_missing() -> None:
    """It may have what the others lack."""
    owned = Ownership()
    owned.own("t-a", "account-1", Origin.CREATED)
    assert not plan(holding(complete=False), holding(account("account-1")), owned, deletes=True).actions


def test_a_conflict() -> None:
    """An account of that name is left alone, unless it is the same."""
    target = holding(account(secret="secret-two"))
    made = plan(holding(account()), target)
    assert verbs(made) == [(Verb.UPDATE, "account-1", False)]
    assert "acl.adopt" in made.actions[0].blocked
    assert verbs(plan(holding(account()), target, adopt=True)) == [(Verb.UPDATE, "account-1", True)]
    assert verbs(plan(holding(account()), holding(account()))) == [(Verb.ADOPT, "account-1", True)]


def test_rights_are_taken_before_others_are_given() -> None:
    """Deletes first, then updates, then new accounts."""
    owned = Ownership()
    for name in ("account-2", "account-3"):
        owned.own("t-a", name, Origin.CREATED)
    source = holding(account("account-1"), account("account-2", topic("a", PUB)))
    made = plan(source, holding(account("account-2"), account("account-3")), owned, deletes=True)
    assert [action.verb for action in made.actions] == [Verb.DELETE, Verb.UPDATE, Verb.CREATE]


def test_a_target_that_checks_no_rights() -> None:
    """Gets no new accounts, since each could do everything; it does where the source is the same."""
    target = holding(authorizes=False)
    made = plan(holding(account()), target)
    assert verbs(made) == [(Verb.CREATE, "account-1", False)]
    assert "authorizationEnabled" in made.actions[0].blocked
    assert verbs(plan(holding(account(), authorizes=False), target)) == [(Verb.CREATE, "account-1", True)]


def test_a_broker_that_differs_is_reported() -> None:
    """By name."""
    owned = Ownership(
        {"t-a": {"accounts": {"account-1": "created"}, "white": []}, "t-b": {"accounts": {}, "white": []}}
    )
    made = make_plan(holding(account()), {"t-a": holding(account()), "t-b": holding()}, owned, AclOptions())
    assert verbs(made) == [(Verb.CREATE, "account-1", True)]
    assert [str(note) for note in made.notes] == ["account-1: the target's brokers differ: t-b must change"]


def test_the_white_list() -> None:
    """Addresses are added; those of the target stay, and ours go by opt-in."""
    source = holding(dialect=Dialect.ACL1, white=frozenset({"10.0.0.1"}))
    target = holding(dialect=Dialect.ACL1, white=frozenset({"10.0.0.9"}))
    owned = Ownership()
    store = Store({"t-a": target})
    store.apply(plan(source, target, owned).pending, owned)
    assert store.states["t-a"].white == {"10.0.0.1", "10.0.0.9"}
    gone = holding(dialect=Dialect.ACL1)
    assert not plan(gone, store.states["t-a"], owned).pending
    store.apply(plan(gone, store.states["t-a"], owned, deletes=True).pending, owned)
    assert store.states["t-a"].white == {"10.0.0.9"}


@worlds_apart
@given(worlds(), OPTIONS)
def test_a_plan_shows_no_secret(context: tuple[AclState, dict[str, AclState]], options: AclOptions) -> None:
    """Neither as JSON nor as what Python shows."""
    made = make_plan(context[0], context[1], Ownership(), options)
    for text in (json.dumps(made.as_json()), repr(made), repr(context)):
        assert "secret-one" not in text
        assert "secret-two" not in text


def test_admins_need_an_opt_in() -> None:
    """Whichever side has them."""
    boss, plain = account(admin=True), account()
    for want, have in ((boss, None), (boss, plain), (plain, boss)):
        target = holding(*([have] if have else []))
        owned = Ownership({"t-a": {"accounts": {"account-1": "created"}, "white": []}} if have else None)
        [blocked] = plan(holding(want), target, owned).actions
        assert blocked.blocked == "it is an admin account: set acl.admins"
        assert plan(holding(want), target, owned, admins=True).blocked == ()


def test_an_admin_that_becomes_none_is_one_all_the_same() -> None:
    """1.0 binds an admin by the perms that it has; 2.0 has no such Super user."""
    boss = account("account-1", topic("a", PUB), admin=True)
    source = holding(boss, dialect=Dialect.ACL1)
    [blocked] = plan(source, holding()).actions
    assert blocked.blocked == "it is an admin account: set acl.admins"
    [made] = plan(source, holding(), admins=True).pending
    assert made.after is not None
    assert not made.after.admin


def test_what_is_gone_from_both_sides_is_not_ours_any_more() -> None:
    """Whoever makes it again makes it theirs."""
    owned, store = (
        Ownership({"t-a": {"accounts": {"account-1": "created"}, "white": []}}),
        Store({"t-a": holding()}),
    )
    made = plan(holding(), holding(), owned)
    assert verbs(made) == [(Verb.FORGET, "account-1", True)]
    store.apply(made.pending, owned)
    assert not plan(holding(), holding(account()), owned, deletes=True).actions


def test_what_nobody_can_say_is_told() -> None:
    """An account of which source or target say nothing sure is left as it is, and stands among what is blocked."""
    notes = (Note("account-1", "the source's brokers differ in it, so it is left as it is"),)
    source = holding(unsure=frozenset({"account-1"}), notes=notes)
    made = plan(source, holding(account()))
    assert verbs(made) == [(Verb.UPDATE, "account-1", False)]
    assert "differ in it" in made.actions[0].blocked
    assert not plan(source, holding(account()), exclude=("account-1",)).actions
    assert not plan(holding(), holding(unsure=frozenset({"account-1"}))).actions


@pytest.mark.parametrize("lost", [{"enabled": False}, {"secret": Secret("short")}], ids=["disabled", "short"])
def test_what_cannot_be_said_in_acl1_takes_the_rights_away(lost: dict[str, Any]) -> None:
    """Of an account of ours, whether deletions are asked for or not; one that was not synced is left alone."""
    mighty = account("account-1", topic("a", PUB), topic_default=frozenset({PUB}))
    source = holding(dataclasses.replace(account(), **lost))
    target = holding(mighty, dialect=Dialect.ACL1)
    assert not plan(source, target).actions
    owned = Ownership({"t-a": {"accounts": {"account-1": "adopted"}, "white": []}})
    (action,) = plan(source, target, owned).pending
    assert action.after == account()
    after = holding(account(), dialect=Dialect.ACL1)
    assert not plan(source, after, owned).actions
    ours = Ownership({"t-a": {"accounts": {"account-1": "created"}, "white": []}})
    assert verbs(plan(source, target, ours, deletes=True)) == [(Verb.DELETE, "account-1", True)]


def test_an_account_that_an_older_store_brings_back_goes_again() -> None:
    """As it was when it was deleted, whatever its secret; another may be somebody's."""
    gone = account("account-1", topic("a", PUB))
    owned = Ownership({"t-a": {"accounts": {"account-1": "created"}, "white": []}})
    owned.deleted("t-a", gone)
    owned = Ownership(json.loads(json.dumps(owned.as_json())))
    assert plan(holding(), holding(), owned, deletes=True).actions == ()
    back = holding(dataclasses.replace(gone, secret=Secret("an older one")))
    assert verbs(plan(holding(), back, owned, deletes=True)) == [(Verb.DELETE, "account-1", True)]
    assert plan(holding(), back, owned).actions == ()
    assert plan(holding(), back, Ownership(), deletes=True).actions == ()
    assert plan(holding(complete=False), back, owned, deletes=True).actions == ()
    other = plan(holding(), holding(account("account-1", topic("b", PUB))), owned, deletes=True)
    assert verbs(other) == [(Verb.DELETE, "account-1", False)]
    assert "another of that name is there" in other.actions[0].blocked
    owned.own("t-a", "account-1", Origin.CREATED)
    owned.disown("t-a", "account-1")
    assert plan(holding(), back, owned, deletes=True).actions == ()


def test_what_was_deleted_is_remembered_for_the_last_thousand() -> None:
    owned = Ownership()
    for number in range(1002):
        owned.deleted("t-a", account(f"account-{number}"))
    there = {name: account(name) for name in ("account-0", "account-1", "account-2", "account-1001")}
    assert owned.returned("t-a", there) == {"account-2": True, "account-1001": True}
    assert owned.returned("t-b", there) == {}


def test_white_lists_that_no_request_can_write() -> None:
    """Request 53 takes the addresses with commas between them."""
    source = holding(dialect=Dialect.ACL1, white=frozenset({"10.0.0.1", "192.168.0.{1,2}"}))
    lacking, plain = plan(source, holding(dialect=Dialect.ACL1)).actions
    assert (lacking.changes, "no request can write" in lacking.blocked) == (("+ 192.168.0.{1,2}",), True)
    assert (plain.changes, set(plain.white), plain.blocked) == (("+ 10.0.0.1",), {"10.0.0.1"}, "")
    there = holding(dialect=Dialect.ACL1, white=frozenset({"192.168.0.{1,2}"}))
    (blocked,) = plan(holding(dialect=Dialect.ACL1, white=frozenset({"10.0.0.1"})), there).actions
    assert "no request can write" in blocked.blocked
    both = holding(dialect=Dialect.ACL1, white=frozenset({"10.0.0.1", "192.168.0.{1,2}"}))
    assert plan(source, both).actions == ()
    assert plan(holding(dialect=Dialect.ACL1), there).actions == ()


def test_a_white_list_of_several_files_is_left_alone() -> None:
    """What is read of them together would be written to one of them, and stay there for good."""
    source = holding(dialect=Dialect.ACL1, white=frozenset({"10.0.0.1"}))
    target = holding(dialect=Dialect.ACL1, white=frozenset({"10.0.0.9"}), several_files=True)
    (blocked,) = plan(source, target).actions
    assert (blocked.changes, "several files" in blocked.blocked) == (("+ 10.0.0.1",), True)
    assert plan(holding(dialect=Dialect.ACL1, white=frozenset({"10.0.0.9"})), target).actions == ()


def test_white_addresses_wait_for_all_brokers() -> None:
    """One that is away may not have them."""
    source = holding(dialect=Dialect.ACL1, white=frozenset({"10.0.0.1"}), complete=False)
    assert not plan(source, holding(dialect=Dialect.ACL1)).actions


def test_nothing_is_gone_while_brokers_speak_both_dialects() -> None:
    """And a password that is not the same in both is left as it is."""
    old = holding(account("account-1"), account("account-2"), dialect=Dialect.ACL1)
    new = holding(account("account-2", secret="secret-two"), account("account-3"))
    merged = merge({"s-a": old, "s-b": new}, complete=True)
    assert not merged.complete
    assert merged.accounts.keys() == {"account-3"}
    assert merged.unsure == {"account-2"}
