"""What has to be done at the target, as a pure function of what both sides hold.

The plan shows no secrets; what is not done says why. After all of it is done, the next plan is empty but for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from acl_sync.exposure import BLACK_LIST, FIRST_USER
from acl_sync.model import Account, AclState, Dialect, Note, differences
from acl_sync.options import AclOptions
from acl_sync.ownership import Origin, Ownership
from acl_sync.translate import translate

__all__ = ["AclPlan", "Action", "Verb", "make_plan"]


class Verb(StrEnum):
    """What is done. Rights are taken before others are given."""

    DELETE = "delete"
    UPDATE = "update"
    CREATE = "create"
    ADOPT = "adopt"
    FORGET = "forget"
    WHITE_LIST = "white list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One change at one broker. With `blocked` it is not made, for that reason.

    `changes` are for people; `before` and `after` hold secrets, and are never shown. A white list becomes `white`;
    `claimed_white` are ours from before it is written, those too that are to go.
    """

    broker: str
    dialect: Dialect
    verb: Verb
    account: str = ""
    changes: tuple[str, ...] = ()
    blocked: str = ""
    before: Account | None = field(default=None, repr=False)
    after: Account | None = field(default=None, repr=False)
    white: frozenset[str] = frozenset()
    claimed_white: frozenset[str] = frozenset()

    @property
    def takes_away(self) -> bool:
        """Whether an account or an address goes that the source has lost."""
        return self.verb is Verb.DELETE or bool(self.claimed_white - self.white)

    @property
    def owned_white(self) -> frozenset[str]:
        """What is ours of the white list as it is then."""
        return self.claimed_white & self.white

    def as_json(self) -> dict[str, Any]:
        """Without secrets."""
        return {
            "broker": self.broker,
            "action": self.verb.value,
            "account": self.account,
            "changes": list(self.changes),
            "blocked": self.blocked,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AclPlan:
    """All actions in the order in which they are done, and what was not taken over exactly.

    `unreachable_brokers` are those of either side that could not be asked, each with the reason, which is among the
    notes too.
    """

    source: Dialect
    targets: Mapping[str, Dialect]
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    unreachable_brokers: tuple[tuple[str, str], ...] = ()

    @property
    def pending(self) -> tuple[Action, ...]:
        """What `apply` will do."""
        return tuple(action for action in self.actions if not action.blocked)

    @property
    def blocked(self) -> tuple[Action, ...]:
        """What is not done, each with its reason."""
        return tuple(action for action in self.actions if action.blocked)

    def as_json(self) -> dict[str, Any]:
        """Without secrets."""
        return {
            "source": self.source.value,
            "targets": {broker: dialect.value for broker, dialect in self.targets.items()},
            "actions": [action.as_json() for action in self.actions],
            "notes": [{"account": note.account, "text": note.text} for note in self.notes],
            "unreachable_brokers": [
                {"broker": broker, "reason": reason} for broker, reason in self.unreachable_brokers
            ],
        }


def make_plan(source: AclState, targets: Mapping[str, AclState], owned: Ownership, options: AclOptions) -> AclPlan:
    """What makes each broker of `targets` hold what `source` does.

    Args:
        targets: by broker; one that could not be read is not among them.
    """
    notes: list[Note] = []
    actions: list[Action] = []
    dialects = {broker: state.dialect for broker, state in targets.items()}
    admins = {name for name, account in source.accounts.items() if account.admin}
    wanted = {dialect: translate(source, dialect) for dialect in set(dialects.values()) - {Dialect.NONE}}
    for translated in wanted.values():
        notes += [note for note in translated.notes if note not in notes]
    for broker, state in sorted(targets.items()):
        notes += [Note(note.account, f"{broker}: {note.text}") for note in state.notes]
        notes += _exposure(broker, state)
        if state.dialect is Dialect.NONE:
            continue
        want = wanted[state.dialect]
        refused = source.accounts.keys() - want.accounts.keys()
        planned = list(_for_broker(broker, want, state, owned, options, refused=refused, admins=admins))
        if source.authorizes and not state.authorizes:
            reason = "the target checks no rights (authorizationEnabled): any account there may do everything"
            planned = [replace(each, blocked=each.blocked or reason) if _gives(each) else each for each in planned]
        actions += planned
    notes += _drift(actions, targets)
    shown = [note for note in notes if not note.account or options.wants(note.account)]
    return AclPlan(source=source.dialect, targets=dialects, actions=tuple(actions), notes=tuple(shown))


def _exposure(broker: str, state: AclState) -> Iterator[Note]:
    anyone = f"{broker}: any account, whatever its rights, can"
    if state.exposed:
        settings = ";".join(sorted(state.exposed))
        yield Note(
            "",
            f"{anyone} switch the checks off (request 25 asks no right in RocketMQ 5): add {settings} to"
            f" {BLACK_LIST} in its broker.conf",
        )
    if state.shown:
        settings = " and ".join(sorted(state.shown))
        way_out = f": take {FIRST_USER} out of its broker.conf, and give that user another password"
        yield Note(
            "",
            f"{anyone} read the secret of a Super user in {settings} (request 26 asks no right in RocketMQ 5)"
            + way_out * (FIRST_USER in state.shown),
        )


def _gives(action: Action) -> bool:
    """Whether somebody may do something afterwards who could do nothing before."""
    after, before = action.after, action.before
    return after is not None and not after.admin and after.enabled and (before is None or not before.enabled)


def _for_broker(
    broker: str,
    want: AclState,
    have: AclState,
    owned: Ownership,
    options: AclOptions,
    *,
    refused: Set[str],
    admins: Set[str],
) -> Iterator[Action]:
    """`refused` are accounts of the source that the target's dialect cannot express, `admins` those that are one
    there, whatever they become.
    """
    returned = owned.returned(broker, have.accounts) if want.complete and options.deletes else {}
    gone = returned.keys() - want.accounts.keys()
    ours = {**dict.fromkeys(gone, Origin.CREATED), **owned.accounts(broker)}
    unsure = want.unsure | have.unsure
    known = want.accounts.keys() | (ours.keys() if want.complete else ours.keys() & refused)
    names = sorted(name for name in known if name not in unsure and options.wants(name))
    found = [
        action
        for name in names
        for action in _for_account(
            partial(Action, broker=broker, dialect=have.dialect, account=name),
            name,
            want.accounts.get(name),
            have.accounts.get(name),
            ours.get(name),
            options=options,
            is_refused=name in refused,
            is_admin=name in admins,
            is_other=not returned.get(name, True),
        )
    ]
    for name in sorted(filter(options.wants, unsure & (known | want.unsure))):
        notes = dict.fromkeys(note.text for note in (*want.notes, *have.notes) if note.account == name)
        reason = "; ".join(notes) or "nothing can be said of it now"
        found.append(Action(broker=broker, dialect=have.dialect, verb=Verb.UPDATE, account=name, blocked=reason))
    order = list(Verb)
    yield from sorted(found, key=lambda action: order.index(action.verb))
    if have.dialect is Dialect.ACL1:
        yield from _for_white_list(broker, want, have, owned, options)


def _for_account(
    act: Callable[..., Action],
    name: str,
    want: Account | None,
    have: Account | None,
    origin: Origin | None,
    *,
    options: AclOptions,
    is_refused: bool,
    is_admin: bool,
    is_other: bool,
) -> Iterator[Action]:
    """`is_admin`: at the source. `is_other`: it was deleted, and one of that name is there again that may do
    something else.
    """
    if want is None and have is None:
        # Whoever makes an account of that name again makes it theirs.
        yield act(verb=Verb.FORGET)
        return
    deletes = options.deletes and origin is Origin.CREATED
    if want is None and have is not None and is_refused and not deletes:
        # It loses its rights, or what the source has taken from it would stay here.
        want = Account(name=name, secret=have.secret)
    admin = is_admin or any(each is not None and each.admin for each in (want, have))
    reason = "it is an admin account: set acl.admins" if admin and not options.admins else ""
    if want is None:
        verb = Verb.DELETE
        if origin is Origin.ADOPTED:
            reason = reason or "it existed at the target before: delete it there"
        elif not options.deletes:
            reason = reason or "the source no longer has it: set sync_deletes"
        elif is_other:
            reason = reason or "it was deleted, and another of that name is there: delete it there, or rename it"
    elif have is None:
        verb = Verb.CREATE
    elif have == want:
        if origin is not None or reason:
            return
        verb = Verb.ADOPT
    else:
        verb = Verb.UPDATE
        if origin is None and not options.adopt:
            reason = reason or "it existed at the target before and differs: set acl.adopt, or rename one of them"
    yield act(
        verb=verb,
        changes=tuple(differences(have, want)) if verb is not Verb.ADOPT else (),
        blocked=reason,
        before=have,
        after=want,
    )


def _for_white_list(
    broker: str, want: AclState, have: AclState, owned: Ownership, options: AclOptions
) -> Iterator[Action]:
    act = partial(Action, broker=broker, dialect=have.dialect, verb=Verb.WHITE_LIST)
    ours = owned.white(broker)
    # One that a broker which is away does not have lets in who must sign there.
    lacking = want.white - have.white if want.complete else frozenset()
    # Request 53 takes all addresses in one text: each of its commas would end an address.
    unsayable = frozenset(each for each in lacking if "," in each)
    if unsayable:
        why = "no request can write an address with a comma: add it to plain_acl.yml there"
        yield act(changes=_signed("+", unsayable), blocked=why)
    added = lacking - unsayable
    stale = (ours & have.white) - want.white if want.complete else frozenset()
    removed = stale if options.deletes else frozenset()
    if added or removed:
        why = ""
        if have.several_files:
            why = "its white list may stand in several files, of which one can be written: edit them there"
        elif any("," in each for each in have.white):
            why = "an address with a comma is there, which no request can write: edit plain_acl.yml there"
        yield act(
            changes=_signed("+", added) + _signed("-", removed),
            blocked=why,
            white=(have.white | added) - removed,
            claimed_white=(ours & have.white) | added,
        )
    if stale - removed:
        yield act(changes=_signed("-", stale), blocked="the source no longer has it: set sync_deletes")


def _signed(sign: str, addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{sign} {each}" for each in sorted(addresses))


def _drift(actions: Sequence[Action], targets: Mapping[str, AclState]) -> Iterator[Note]:
    """Accounts that are not the same on all brokers of the target."""
    speaking = [broker for broker, state in targets.items() if state.dialect is not Dialect.NONE]
    by_account: dict[str, dict[str, Action]] = {}
    for action in actions:
        if action.account and action.verb not in (Verb.ADOPT, Verb.FORGET):
            by_account.setdefault(action.account, {})[action.broker] = action
    for account, found in sorted(by_account.items()):
        seen = {found[broker].before if broker in found else None for broker in speaking}
        if len(found) < len(speaking) or len(seen) > 1:
            yield Note(account, f"the target's brokers differ: {', '.join(sorted(found))} must change")
