"""The brokers of the source as one: what they agree on is synced, the rest waits until they do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from acl_sync.model import Account, AclState, Dialect, Note

__all__ = ["merge"]


def merge(states: Mapping[str, AclState], *, complete: bool, notes: Iterable[Note] = ()) -> AclState:
    """One state of all brokers.

    An account that is not the same everywhere is left as it is at the target: it is being changed, or one broker is
    wrong, and nobody can tell which. Where brokers are missing (not `complete`), what is gone from the others may
    still be there, so that nothing counts as gone; nor does it where some brokers speak 1.0 and others 2.0. Where
    some look at rights and others do not, it is a source that does.
    """
    all_notes = list(notes)
    speaking = {broker: state for broker, state in states.items() if state.dialect is not Dialect.NONE}
    dialects = {state.dialect for state in speaking.values()}
    if not speaking:
        return AclState(dialect=Dialect.NONE)
    silent = sorted(states.keys() - speaking.keys())
    if silent:
        all_notes.append(Note("", f"source brokers that check no accounts: {', '.join(silent)}"))
    # While a cluster is being upgraded both are there; 2.0 is where it goes.
    chosen = Dialect.ACL2 if Dialect.ACL2 in dialects else Dialect.ACL1
    if len(dialects) > 1:
        all_notes.append(Note("", f"the source's brokers speak ACL 1.0 and 2.0: {chosen} is synced"))
    others = [state for state in speaking.values() if state.dialect is not chosen]
    parts = {broker: state for broker, state in speaking.items() if state.dialect is chosen}
    accounts: dict[str, Account] = {}
    unsure: set[str] = set().union(*(state.unsure for state in parts.values()))
    for name in sorted({name for state in parts.values() for name in state.accounts}):
        found = [state.accounts.get(name) for state in parts.values()]
        first = found[0]
        twins = [state.accounts[name] for state in others if name in state.accounts]
        if first is not None and any(each.secret != first.secret for each in twins):
            unsure.add(name)
            all_notes.append(Note(name, "its secrets in ACL 1.0 and 2.0 differ, so it is left as it is"))
        elif first is not None and all(each == first for each in found):
            accounts[name] = first
        else:
            unsure.add(name)
            all_notes.append(Note(name, "the source's brokers differ in it, so it is left as it is"))
    for broker, state in parts.items():
        all_notes += [Note(note.account, f"{broker}: {note.text}") for note in state.notes]
    return AclState(
        dialect=chosen,
        accounts={name: account for name, account in accounts.items() if name not in unsure},
        white=frozenset.intersection(*(state.white for state in parts.values())),
        unsure=frozenset(unsure),
        complete=complete and not others and all(state.complete for state in parts.values()),
        authorizes=any(state.authorizes for state in parts.values()),
        notes=tuple(all_notes),
    )
