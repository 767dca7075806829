"""ACL 1.0 of one broker, over the wire: 54 and 52 read it, 50, 51 and 53 write it.

4.9 merges a written account into its file field by field and refuses empty lists, so that the last topic or group
perm of an account can only be taken away with the account itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from acl_sync.model import ALL, PUB, SUB, Account, AclState, Decision, Dialect, Kind, Note, Rule, Secret, ordered
from acl_sync.wire import ask, read_json
from replicator.client.endpoint import Endpoint
from replicator.client.tables import members
from replicator.errors import BrokerRefused, ClientError, ProtocolError
from replicator.protocol import fastjson
from replicator.protocol.codes import Request

__all__ = ["MIN_LENGTH", "Unclear", "delete_account", "parse", "read", "version", "write_account", "write_white"]

#: Characters that access keys and secret keys have at least.
MIN_LENGTH: Final = 7

_PERMS: Final = {
    "PUB": frozenset({PUB}),
    "SUB": frozenset({SUB}),
    "PUB|SUB": frozenset({PUB, SUB}),
    "SUB|PUB": frozenset({PUB, SUB}),
}
_DENY: Final = "DENY"
#: What brokers take for true and for false, in any case: their YAML, then `TypeUtils.castToBoolean` of fastjson.
_YES: Final = frozenset({"true", "yes", "on", "1", "y", "t"})
_NO: Final = frozenset({"false", "no", "off", "0", "n", "f", "", "none"})
_RETRY: Final = "%RETRY%"


class Unclear(str):
    """A text that older brokers take for a number, of which they make another text (`01234567` is octal)."""

    __slots__ = ()


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
    try:
        state = parse([(found.get("plainAccessConfigs"), found.get("globalWhiteAddrs"))])
    except (AttributeError, ValueError):
        raise ProtocolError(f"{broker.address} returned an unreadable list of accounts") from None
    return replace(state, several_files=await _has_several_files(broker))


async def _has_several_files(broker: Endpoint) -> bool:
    """Whether accounts and addresses also stand in conf/acl; brokers before 4.9.3 have no such directory.

    Raises:
        ProtocolError: it is not understood.
    """
    answer = await broker.ask(Request.GET_BROKER_CLUSTER_ACL_INFO, {})
    try:
        return len(members(fastjson.parse((answer.fields.get("allAclFileVersion") or "{}").encode()))) > 1
    except ProtocolError:
        raise ProtocolError(f"{broker.address} does not say which files of accounts it has") from None


def parse(files: Iterable[tuple[Any, Any]]) -> AclState:
    """Accounts and white lists, file by file; the first file that has an account is the one that counts.

    Raises:
        ValueError: one of them is not a list.
    """
    nameless = 0
    accounts: dict[str, Account] = {}
    notes: list[Note] = []
    white: set[str] = set()
    broken: set[str] = set()
    for entries, addresses in files:
        there = _list(addresses, "globalWhiteAddrs")
        white |= {str(each).strip() for each in there if each is not None and str(each).strip()}
        for entry in _list(entries, "accounts"):
            name = str(entry.get("accessKey") or "") if isinstance(entry, Mapping) else ""
            nameless += not name
            if not name or name in accounts or name in broken:
                continue
            try:
                accounts[name] = _account(name, entry)
            except ValueError as error:
                broken.add(name)
                notes.append(Note(name, f"left as it is, since it cannot be read: {error}"))
    if nameless:
        notes.append(Note("", f"{nameless} accounts have no accessKey and are left out"))
    return AclState(
        dialect=Dialect.ACL1,
        accounts=accounts,
        white=frozenset(white),
        unsure=frozenset(broken),
        complete=not nameless,
        notes=tuple(notes),
    )


def _list(value: Any, name: str) -> list[Any]:
    """The list `name`, which may be missing.

    Raises:
        ValueError: it is something else: what it denies would be allowed if it were left out.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    return value


def _account(name: str, entry: Mapping[str, Any]) -> Account:
    secret = entry.get("secretKey")
    if secret is None or not str(secret):
        raise ValueError("it has no secretKey")
    if isinstance(secret, Unclear) or isinstance(entry.get("accessKey"), Unclear):
        raise ValueError("its accessKey or secretKey is a number to some versions, and a text to others: quote it")
    rules: dict[tuple[Kind, str], Rule] = {}
    # Groups first: a topic perm of %RETRY%<group> is one of the group, and wins.
    for kind, key in ((Kind.GROUP, "groupPerms"), (Kind.TOPIC, "topicPerms")):
        for text in _list(entry.get(key), key):
            rule = _rule(kind, str(text))
            rules[rule.kind, rule.name] = rule
    return Account(
        name=name,
        secret=Secret(str(secret)),
        admin=_is_admin(entry.get("admin")),
        topic_default=_perms(entry.get("defaultTopicPerm")),
        group_default=_perms(entry.get("defaultGroupPerm")) & {SUB},
        white=str(entry.get("whiteRemoteAddress") or "").strip(),
        rules=ordered(rules.values()),
    )


def _is_admin(value: Any) -> bool:
    text = str(value).lower()
    if text not in _YES | _NO:
        raise ValueError("admin: it is neither true nor false")
    return text in _YES


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
        BrokerRefused: it stays as it was.
        Unreachable, RequestTimeout: see there.
    """
    if before is None or not _loses_all(before, account):
        await _put(broker, account)
        return
    await delete_account(broker, account.name)
    try:
        await _put(broker, account)
    except BrokerRefused:
        with contextlib.suppress(ClientError):  # what was refused first is told
            await _put(broker, before)
        raise


def _loses_all(before: Account, account: Account) -> bool:
    """Whether all perms of a kind go, which a merge cannot say."""
    return any(_said_rules(before, kind) and not _said_rules(account, kind) for kind in _FIELDS.values())


async def _put(broker: Endpoint, account: Account) -> None:
    fields = {
        "accessKey": account.name,
        "secretKey": account.secret.reveal(),
        "whiteRemoteAddress": account.white,
        "admin": "true" if account.admin else "false",
        "defaultTopicPerm": _said(account.topic_default),
        "defaultGroupPerm": _said(account.group_default),
    }
    fields |= {name: said for name, kind in _FIELDS.items() if (said := _said_rules(account, kind))}
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
    """Replaces the global white list of plain_acl.yml, which has to be the only file with one."""
    fields = {"globalWhiteAddrs": ",".join(sorted(addresses)), "aclFileFullPath": ""}
    await ask(broker, Request.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, fields)
