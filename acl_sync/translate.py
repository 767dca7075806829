"""From ACL 1.0 to 2.0 and back, never widening: what cannot be said exactly becomes less, and is noted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from acl_sync.acl1 import MIN_LENGTH
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
    Note,
    Pattern,
    Rule,
    ordered,
)
from acl_sync.semantics import OPERATIONS, Operation, surely_allows

__all__ = ["translate"]

_EVERYTHING: Final = frozenset({ALL})
_RETRY: Final = "%RETRY%"
#: What separates lists and perms in 1.0.
_SEPARATORS: Final = frozenset(",=")


def translate(state: AclState, to: Dialect) -> AclState:
    """What `to` would have to hold so that nobody may do more than at `state`."""
    notes = list(state.notes)
    if not state.authorizes:
        notes.append(Note("", "the source keeps rules but does not enforce them; the target does"))
    if state.dialect is to:
        return dataclasses.replace(state, notes=tuple(notes), authorizes=True)
    accounts: dict[str, Account] = {}
    for account in state.accounts.values():
        translated, said = _to_acl2(account) if to is Dialect.ACL2 else _to_acl1(account)
        notes += said
        if translated is not None:
            accounts[account.name] = translated
    if state.white:
        notes.append(
            Note("", f"ACL 2.0 has no white list: {', '.join(sorted(state.white))} need accounts at the target")
        )
    return dataclasses.replace(
        state, dialect=to, accounts=accounts, white=frozenset(), notes=tuple(notes), authorizes=True
    )


# From 1.0 to 2.0.


def _to_acl2(account: Account) -> tuple[Account | None, list[Note]]:
    """Each topic and group gets one Custom entry, so that no order among entries matters.

    An entry that lacks what the default has must deny it: where a Custom entry does not match the action, the
    Default policy would.
    """
    notes: list[Note] = []

    def note(text: str) -> None:
        notes.append(Note(account.name, text))

    if account.white:
        note(f"ACL 2.0 has no white addresses: {account.white} must sign and has the account's rights only")
    admin = account.admin and not account.rules
    if account.admin and account.rules:
        note("an admin with topic or group perms is bound by them for messages; it becomes a user without admin")
    rules: list[Rule] = []
    if not admin:
        for kind, default in ((Kind.TOPIC, account.topic_default), (Kind.GROUP, account.group_default)):
            if default:
                rules.append(Rule(kind=kind, pattern=Pattern.ANY, actions=_with_get(default), default=True))
            for rule in account.rules:
                if rule.kind is kind:
                    rules += _entries(rule, default, note)
    translated = Account(name=account.name, secret=account.secret, admin=admin, rules=ordered(rules))
    return translated, notes


def _entries(rule: Rule, default: frozenset[str], note: Callable[[str], None]) -> Iterator[Rule]:
    if not rule.name or "*" in rule.name:
        # No topic or group is called so, and in 2.0 it would stand for many.
        note(f"{rule.kind} {rule.name!r} is left out: nothing can be called so")
        return
    perms = frozenset() if rule.decision is Decision.DENY else rule.actions
    lacks, more = default - perms, perms - default
    if not perms:
        yield dataclasses.replace(rule, actions=_EVERYTHING, decision=Decision.DENY)
    elif not lacks:
        yield dataclasses.replace(rule, actions=_with_get(perms))
    else:
        yield dataclasses.replace(rule, actions=_with_get(lacks), decision=Decision.DENY)
        if more:
            yield dataclasses.replace(rule, actions=_with_get(more), default=True)
        note(f"{rule.kind} {rule.name!r} may do less than others: through a 5.x proxy its route is refused too")


def _with_get(perms: frozenset[str]) -> frozenset[str]:
    """1.0 asks no right for offsets, which every consumer asks for; 2.0 asks for Get."""
    return perms | {GET} if SUB in perms else perms


# From 2.0 to 1.0.


def _to_acl1(account: Account) -> tuple[Account | None, list[Note]]:
    """For each name that the rules mention, and for all others, what is allowed whichever rule decides.

    Prefixes and source addresses are unknown to 1.0: allowed by them is not allowed, denied by them is denied.
    """
    notes: list[Note] = []

    def note(text: str) -> None:
        notes.append(Note(account.name, text))

    if not account.enabled:
        note("ACL 1.0 cannot disable an account: where it was synced before, it loses its rights")
        return None, notes
    if min(len(account.name), len(account.secret.reveal())) < MIN_LENGTH:
        note(
            f"ACL 1.0 wants {MIN_LENGTH} characters in access keys and secrets: it is left out; where it was synced"
            " before, it loses its rights"
        )
        return None, notes
    if account.admin:
        return dataclasses.replace(account, rules=()), notes
    for rule in account.rules:
        if text := _loss(rule):
            note(f"policy {rule} {text}")
    narrow = dataclasses.replace(account, rules=tuple(_without_conditions(account)))
    defaults: dict[Kind, frozenset[str]] = {}
    rules: list[Rule] = []
    for kind in (Kind.TOPIC, Kind.GROUP):
        default = _default(narrow, kind)
        perms: dict[str, frozenset[str]] = {}
        for name in sorted({rule.name for rule in narrow.rules if _names(rule, kind)}):
            perms[name] = _allowed(narrow, kind, name)
            if not _can_be_said(name):
                # Whatever it is called, no less may be allowed to others than is said of it.
                default &= perms.pop(name)
        defaults[kind] = default
        rules += [_literal(kind, name, allowed) for name, allowed in perms.items() if allowed != default]
    return (
        dataclasses.replace(
            account, rules=ordered(rules), topic_default=defaults[Kind.TOPIC], group_default=defaults[Kind.GROUP]
        ),
        notes,
    )


def _loss(rule: Rule) -> str:
    """What becomes of a rule that 1.0 cannot say exactly; empty for one that it can."""
    denies = rule.decision is Decision.DENY
    if rule.kind in (Kind.CLUSTER, Kind.NAMESPACE):
        return "" if denies else "is left out: ACL 1.0 knows it of admins only"
    if rule.source_ips:
        return (
            "counts for all addresses: ACL 1.0 knows none" if denies else "is left out: ACL 1.0 knows no addresses"
        )
    if rule.pattern is Pattern.PREFIXED:
        return (
            "takes the default away: ACL 1.0 knows no prefixes"
            if denies
            else "is left out: ACL 1.0 knows no prefixes"
        )
    if rule.pattern is Pattern.LITERAL and not _can_be_said(rule.name):
        return "is left out: ACL 1.0 cannot write that name"
    beyond = rule.actions - {ALL, PUB, SUB, GET}
    if beyond and not denies:
        return f"loses {','.join(sorted(beyond))}: ACL 1.0 knows it of admins only"
    return ""


def _without_conditions(account: Account) -> Iterator[Rule]:
    for rule in account.rules:
        if not rule.source_ips:
            yield rule
        elif rule.decision is Decision.DENY:
            yield dataclasses.replace(rule, source_ips=frozenset())


def _names(rule: Rule, kind: Kind) -> bool:
    # What 1.0 would take for a group, or what 2.0 never asks about, is of no use.
    return rule.kind is kind and rule.pattern is Pattern.LITERAL and not rule.name.startswith(_RETRY)


def _can_be_said(name: str) -> bool:
    return bool(name) and name == name.strip() and not _SEPARATORS & set(name)


def _allowed(account: Account, kind: Kind, name: str) -> frozenset[str]:
    return frozenset(
        right
        for right, operations in _of(kind).items()
        if all(surely_allows(account, each.actions, kind, name) for each in operations)
    )


def _default(account: Account, kind: Kind) -> frozenset[str]:
    """What holds for every name that no rule mentions, those with a prefix that is denied among them."""
    unnamed = dataclasses.replace(
        account, rules=tuple(rule for rule in account.rules if Kind.ANY is rule.kind or rule.pattern is Pattern.ANY)
    )
    denials = [
        rule.actions
        for rule in account.rules
        if rule.kind is kind and rule.pattern is Pattern.PREFIXED and rule.decision is Decision.DENY
    ]
    denied = {
        right
        for right, operations in _of(kind).items()
        if any(ALL in actions or actions & each.actions for each in operations for actions in denials)
    }
    return _allowed(unnamed, kind, "") - denied


def _of(kind: Kind) -> Mapping[str, list[Operation]]:
    """The rights that 1.0 knows to a kind, with the operations that each of them opens."""
    rights = (PUB, SUB) if kind is Kind.TOPIC else (SUB,)
    return {right: [each for each in OPERATIONS if each.right == right and kind in each.kinds] for right in rights}


def _literal(kind: Kind, name: str, allowed: frozenset[str]) -> Rule:
    if not allowed:
        return Rule(kind=kind, name=name, actions=_EVERYTHING, decision=Decision.DENY)
    return Rule(kind=kind, name=name, actions=allowed)
