"""ACL 1.0 of one broker, over the wire: 54 and 52 read it, 50, 51 and 53 write it.

4.9 merges a written account into its file field by field and refuses empty lists, so that the last topic or group
perm of an account can only be taken away with the account itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from acl_sync.model import ALL, PUB, SUB, Account, AclState, Decision, Dialect, Kind, Note, Rule, Secret, ordered
from acl_sync.wire import ask, read_json
from replicator.client.endpoint import Endpoint
from replicator.errors import ProtocolError
from replicator.protocol.codes import Request

__all__ = ["MIN_LENGTH", "delete_account", "parse", "read", "version", "write_account", "write_white"]

#: Characters that access keys and secret keys have at least.
MIN_LENGTH: Final = 7

_PERMS: Final = {
    "PUB": frozenset({PUB}),
    "SUB": frozenset({SUB}),
    "PUB|SUB": frozenset({PUB, SUB}),
    "SUB|PUB": frozenset({PUB, SUB}),
}
_DENY: Final = "DENY"
_RETRY: Final = "%RETRY%"


async def version(broker: Endpoint) -> str:
    """Another text each time an account was written over the wire. Manually edited files may leave it as it is."""
    answer = await broker.ask(Request.GET_BROKER_CLUSTER_ACL_INFO, {})
    return f"{answer.fields.get('version', '')} {answer.fields.get('allAclFileVersion', '')}"


async def read(broker: Endpoint) -> AclState:
    """All accounts of `broker` and its white list.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout, ProtocolError: see there.
    """
    answer = await ask(broker, Request.GET_BROKER_CLUSTER_ACL_CONFIG, {})
    found = read_json(answer, broker.address, "accounts") or {}
    if not isinstance(found, dict):
        raise ProtocolError(f"{broker.address} returned an unreadable list of accounts")
    return parse([(found.get("plainAccessConfigs"), found.get("globalWhiteAddrs"))])


def parse(files: Iterable[tuple[Any, Any]]) -> AclState:
    """Accounts and white lists, file by file; the first file that has an account is the one that counts."""
    accounts: dict[str, Account] = {}
    notes: list[Note] = []
    white: set[str] = set()
    broken: set[str] = set()
    for entries, addresses in files:
        white |= {str(each).strip() for each in _list(addresses) if each is not None and str(each).strip()}
        for entry in _list(entries):
            name = str(entry.get("accessKey") or "") if isinstance(entry, Mapping) else ""
            if not name or name in accounts or name in broken:
                continue
            try:
                accounts[name] = _account(name, entry)
            except ValueError as error:
                broken.add(name)
                notes.append(Note(name, f"left as it is, since it cannot be read: {error}"))
    return AclState(
        dialect=Dialect.ACL1,
        accounts=accounts,
        white=frozenset(white),
        unsure=frozenset(broken),
        notes=tuple(notes),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _account(name: str, entry: Mapping[str, Any]) -> Account:
    secret = entry.get("secretKey")
    if secret is None or not str(secret):
        raise ValueError("it has no secretKey")
    rules: dict[tuple[Kind, str], Rule] = {}
    # Groups first: a topic perm of %RETRY%<group> is one of the group, and wins.
    for kind, key in ((Kind.GROUP, "groupPerms"), (Kind.TOPIC, "topicPerms")):
        for text in _list(entry.get(key)):
            rule = _rule(kind, str(text))
            rules[rule.kind, rule.name] = rule
    return Account(
        name=name,
        secret=Secret(str(secret)),
        admin=str(entry.get("admin")).lower() == "true",
        topic_default=_perms(entry.get("defaultTopicPerm")),
        group_default=_perms(entry.get("defaultGroupPerm")) & {SUB},
        white=str(entry.get("whiteRemoteAddress") or "").strip(),
        rules=ordered(rules.values()),
    )


def _rule(kind: Kind, text: str) -> Rule:
    parts = [part for part in text.split("=") if part]
    if len(parts) != 2:
        raise ValueError(f"the {kind.lower()} perm {text!r} is not name=perm")
    name = parts[0].strip()
    if kind is Kind.TOPIC and name.startswith(_RETRY):
        kind, name = Kind.GROUP, name.removeprefix(_RETRY)
    perms = _perms(parts[1])
    if kind is Kind.GROUP:
        perms &= {SUB}  # no request asks for another right to a group
    if not perms:
        return Rule(kind=kind, name=name, actions=frozenset({ALL}), decision=Decision.DENY)
    return Rule(kind=kind, name=name, actions=perms)


def _perms(text: Any) -> frozenset[str]:
    """What a perm allows; none for what brokers do not know, as they do."""
    return _PERMS.get(str(text).strip(), frozenset())


def _said(perms: frozenset[str]) -> str:
    return "|".join(word for action, word in ((PUB, "PUB"), (SUB, "SUB")) if action in perms) or _DENY


async def write_account(broker: Endpoint, account: Account, *, before: Account | None) -> None:
    """Creates `account`, or makes it so; `before` is what the broker has.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    lists = {kind: _said_rules(account, kind) for kind in (Kind.TOPIC, Kind.GROUP)}
    if before is not None and any(_said_rules(before, kind) and not said for kind, said in lists.items()):
        await delete_account(broker, account.name)
    fields = {
        "accessKey": account.name,
        "secretKey": account.secret.reveal(),
        "whiteRemoteAddress": account.white,
        "admin": "true" if account.admin else "false",
        "defaultTopicPerm": _said(account.topic_default),
        "defaultGroupPerm": _said(account.group_default),
    }
    fields |= {name: lists[kind] for name, kind in _FIELDS.items() if lists[kind]}
    await ask(broker, Request.UPDATE_AND_CREATE_ACL_CONFIG, fields, secrets=[account.secret])


_FIELDS: Final = {"topicPerms": Kind.TOPIC, "groupPerms": Kind.GROUP}


def _said_rules(account: Account, kind: Kind) -> str:
    return ",".join(
        f"{rule.name}={_said(rule.actions if rule.decision is Decision.ALLOW else frozenset())}"
        for rule in account.rules
        if rule.kind is kind
    )


async def delete_account(broker: Endpoint, name: str) -> None:
    """Deletes account `name`."""
    await ask(broker, Request.DELETE_ACL_CONFIG, {"accessKey": name})


async def write_white(broker: Endpoint, addresses: Iterable[str]) -> None:
    """Replaces the global white list of plain_acl.yml; those of the files in acl/ stay as they are."""
    fields = {"globalWhiteAddrs": ",".join(sorted(addresses)), "aclFileFullPath": ""}
    await ask(broker, Request.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, fields)
