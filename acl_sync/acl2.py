"""ACL 2.0 of one broker, over the wire: 3005 and 3010 read it, 3001 to 3003 and 3006 to 3008 write it.

A written list of rules is merged into the broker's, one entry for each policy and resource, so that entries that
are gone are deleted one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from acl_sync.model import Account, AclState, Decision, Dialect, Kind, Note, Pattern, Rule, Secret, ordered
from acl_sync.wire import ask, read_json
from replicator.client.endpoint import Endpoint
from replicator.errors import BrokerRefused, ProtocolError
from replicator.protocol.codes import Request

__all__ = ["delete_account", "read", "write_account"]

_USER: Final = "User:"
_SUPER: Final = "Super"
_KINDS: Final = {kind.value.lower(): kind for kind in Kind}
_ACTIONS: Final = {
    name.lower(): name for name in ("All", "Any", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
}


async def read(broker: Endpoint, *, authorizes: bool = True) -> AclState:
    """All users of `broker` with their rules.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout, ProtocolError: see there.
    """
    users = read_json(await ask(broker, Request.AUTH_LIST_USER, {"filter": ""}), broker.address, "users")
    fields = {"subjectFilter": "", "resourceFilter": ""}
    try:
        acls = read_json(await ask(broker, Request.AUTH_LIST_ACL, fields), broker.address, "rules")
    except BrokerRefused:
        if authorizes:
            raise
        acls = None  # without authorization a broker need not keep any
    return parse(users or [], acls or [], authorizes=authorizes)


def parse(users: Any, acls: Any, *, authorizes: bool = True) -> AclState:
    """Users and rules as brokers list them. A user one of whose rules cannot be read is left as it is."""
    try:
        rules, unsure, notes = _rules(acls)
        accounts = {
            str(user["username"]): Account(
                name=str(user["username"]),
                secret=Secret(str(user.get("password") or "")),
                admin=str(user.get("userType")).lower() == _SUPER.lower(),
                enabled=str(user.get("userStatus")).lower() != "disable",
                rules=ordered(rules.get(str(user["username"]), ())),
            )
            for user in users
        }
    except (KeyError, TypeError, AttributeError):
        raise ProtocolError("a broker returned an unreadable list of users") from None
    for name in sorted(rules.keys() - accounts.keys()):
        # They would become the rights of whoever is created under that name.
        unsure.add(name)
        notes.append(Note(name, "rules for it exist, but no such user: delete the rules there"))
    return AclState(
        dialect=Dialect.ACL2, accounts=accounts, unsure=frozenset(unsure), authorizes=authorizes, notes=tuple(notes)
    )


def _rules(acls: Any) -> tuple[dict[str, list[Rule]], set[str], list[Note]]:
    rules: dict[str, list[Rule]] = {}
    unsure: set[str] = set()
    notes: list[Note] = []
    for acl in acls:
        name = str(acl["subject"]).removeprefix(_USER)
        for policy in acl.get("policies") or ():
            for entry in policy.get("entries") or ():
                try:
                    rules.setdefault(name, []).append(_rule(str(policy.get("policyType")), entry))
                except ValueError as error:
                    unsure.add(name)
                    notes.append(Note(name, f"left as it is, since a rule of it cannot be read: {error}"))
    return rules, unsure, notes


def _rule(policy: str, entry: Any) -> Rule:
    kind, pattern, name = _resource(str(entry["resource"]))
    actions = [_ACTIONS.get(str(action).lower(), "") for action in entry.get("actions") or ()]
    decision = str(entry.get("decision")).capitalize()
    if not all(actions) or decision not in ("Allow", "Deny") or policy.lower() not in ("custom", "default"):
        raise ValueError(
            f"{policy} {entry['resource']} {','.join(map(str, entry.get('actions') or ()))} {decision}"
        )
    return Rule(
        kind=kind,
        pattern=pattern,
        name=name,
        actions=frozenset(actions),
        decision=Decision(decision),
        source_ips=frozenset(str(ip) for ip in entry.get("sourceIps") or ()),
        default=policy.lower() == "default",
    )


def _resource(text: str) -> tuple[Kind, Pattern, str]:
    if text == "*":
        return Kind.ANY, Pattern.ANY, ""
    kind, colon, name = text.partition(":")
    if not colon or kind.lower() not in _KINDS:
        raise ValueError(f"resource {text!r}")
    if name == "*":
        return _KINDS[kind.lower()], Pattern.ANY, ""
    if name.endswith("*"):
        return _KINDS[kind.lower()], Pattern.PREFIXED, name.partition("*")[0]
    return _KINDS[kind.lower()], Pattern.LITERAL, name


async def write_account(broker: Endpoint, account: Account, *, before: Account | None) -> None:
    """Creates the user, or makes it so; `before` is what the broker has.

    A right that shrinks does so first; one that grows does so last.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    fields, body = {"username": account.name}, _user(account)
    if before is None:
        await ask(broker, Request.AUTH_CREATE_USER, fields, body=body, secrets=[account.secret])
        await _write_rules(broker, account, None)
        return
    grows = (account.enabled and not before.enabled) or (account.admin and not before.admin)
    same = (account.secret, account.admin, account.enabled) == (before.secret, before.admin, before.enabled)
    if not same and not grows:
        await ask(broker, Request.AUTH_UPDATE_USER, fields, body=body, secrets=[account.secret])
    if account.rules != before.rules:
        await _write_rules(broker, account, before)
    if grows:
        await ask(broker, Request.AUTH_UPDATE_USER, fields, body=body, secrets=[account.secret])


def _user(account: Account) -> dict[str, str]:
    return {
        "username": account.name,
        "password": account.secret.reveal(),
        "userType": _SUPER if account.admin else "Normal",
        "userStatus": "enable" if account.enabled else "disable",
    }


async def _write_rules(broker: Endpoint, account: Account, before: Account | None) -> None:
    subject = {"subject": _USER + account.name}
    old = before.rules if before is not None else ()
    wanted = account.rules
    if old and (not wanted or _twice(old) or _twice(wanted) or _would_widen(old, wanted)):
        await ask(broker, Request.AUTH_DELETE_ACL, {**subject, "policyType": "", "resource": ""})
        old = ()
    kept = {(rule.policy, rule.resource) for rule in wanted}
    for rule in old:
        if (rule.policy, rule.resource) not in kept:
            await ask(
                broker,
                Request.AUTH_DELETE_ACL,
                {**subject, "policyType": rule.policy, "resource": rule.resource},
            )
    new = [rule for rule in wanted if rule not in old]
    if new:
        code = Request.AUTH_UPDATE_ACL if old else Request.AUTH_CREATE_ACL
        await ask(broker, code, subject, body={**subject, "policies": _policies(new)})


def _would_widen(old: Iterable[Rule], wanted: Iterable[Rule]) -> bool:
    """Whether one change after the other would allow on its way what is allowed neither before nor after.

    Allowing entries are deleted first, and all others are written at once. A denial that goes alone only widens;
    one that goes while something else changes may go too early.
    """
    gone, new = set(old) - set(wanted), set(wanted) - set(old)
    denials = {rule for rule in gone if rule.decision is Decision.DENY}
    return bool(denials) and bool(new or gone - denials)


def _twice(rules: Iterable[Rule]) -> bool:
    """Whether two entries are about the same: a merge would keep only one."""
    return any(count > 1 for count in Counter((rule.policy, rule.resource) for rule in rules).values())


def _policies(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    policies: dict[str, list[dict[str, Any]]] = {}
    for rule in rules:
        policies.setdefault(rule.policy, []).append(
            {
                "resource": rule.resource,
                "actions": sorted(rule.actions),
                "sourceIps": sorted(rule.source_ips),
                "decision": rule.decision.value,
            }
        )
    return [{"policyType": policy, "entries": entries} for policy, entries in policies.items()]


async def delete_account(broker: Endpoint, name: str) -> None:
    """Deletes the user, and its rules with it."""
    await ask(broker, Request.AUTH_DELETE_USER, {"username": name})
