"""Accounts and their rules, one form for ACL 1.0 and 2.0.

An ACL 1.0 account has default perms, white addresses and literal rules, a 2.0 user has rules of every kind.
Secrets live in memory only and are never shown.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

__all__ = ["ALL", "GET", "PUB", "SUB", "Account", "AclState", "Decision", "Dialect", "Kind", "Note", "Pattern"]
__all__ += ["Rule", "Secret", "differences", "ordered", "outline"]

PUB: Final = "Pub"
SUB: Final = "Sub"
GET: Final = "Get"
ALL: Final = "All"

#: Fingerprints hold within one process only. A lasting one, kept in files, could be tried against lists of
#: passwords; none is needed, since the brokers' own secrets are read again for each plan.
_KEY: Final = secrets.token_bytes(32)


class Secret:
    """A secret key or password. Only `reveal` gives it away; repr and str show a fingerprint."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    @property
    def fingerprint(self) -> str:
        """The same for the same secret, as long as this process lives."""
        return hmac.new(_KEY, self._value.encode(), hashlib.sha256).hexdigest()[:12]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Secret({self.fingerprint})"

    def __reduce__(self) -> str:
        raise TypeError("a secret is never pickled")


class Dialect(StrEnum):
    """Which access control a broker speaks."""

    NONE = "none"
    ACL1 = "1.0"
    ACL2 = "2.0"


class Kind(StrEnum):
    """What a rule is about; the names are those of 2.0 on the wire."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(StrEnum):
    """How a rule names its resources."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    ANY = "any"


class Decision(StrEnum):
    """What a rule says."""

    ALLOW = "Allow"
    DENY = "Deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One right, or its denial; with `default` of the Default policy, which counts where no Custom rule does."""

    kind: Kind
    pattern: Pattern = Pattern.LITERAL
    name: str = ""
    actions: frozenset[str]
    decision: Decision = Decision.ALLOW
    source_ips: frozenset[str] = frozenset()
    default: bool = False

    @property
    def policy(self) -> str:
        return "Default" if self.default else "Custom"

    @property
    def resource(self) -> str:
        """As 2.0 writes it: `*`, `Topic:*`, `Topic:name`, `Topic:prefix*`."""
        if self.kind is Kind.ANY:
            return "*"
        return f"{self.kind}:{self.name}{'' if self.pattern is Pattern.LITERAL else '*'}"

    def covers(self, kind: Kind, name: str) -> bool:
        """Whether it is about that topic, group or cluster."""
        if self.kind is Kind.ANY:
            return True
        if self.kind is not kind:
            return False
        if self.pattern is Pattern.LITERAL:
            return name == self.name
        return self.pattern is Pattern.ANY or name.startswith(self.name)

    def __str__(self) -> str:
        ips = f" from {','.join(sorted(self.source_ips))}" if self.source_ips else ""
        return f"{self.policy} {self.resource} {','.join(sorted(self.actions))} {self.decision}{ips}"


def ordered(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Brokers promise no order, so that two lists are compared in this one."""
    return tuple(sorted(rules, key=str))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account (1.0) or a user (2.0). `admin` is 1.0's admin and 2.0's Super.

    `topic_default`, `group_default` and `white` are of 1.0 alone: what holds where no rule names the topic or
    group, and the addresses from which neither signature nor rights are checked.
    """

    name: str
    secret: Secret
    admin: bool = False
    enabled: bool = True
    topic_default: frozenset[str] = frozenset()
    group_default: frozenset[str] = frozenset()
    white: str = ""
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """What was not taken over as it is, and why; `account` is empty where it is about no single one."""

    account: str
    text: str

    def __str__(self) -> str:
        return f"{self.account}: {self.text}" if self.account else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class AclState:
    """All that one broker knows, or that is wanted of it.

    `unsure` are accounts of which nothing can be said now; where it is not `complete`, what is missing may yet be
    there. `authorizes` is false where rules are kept but not enforced. `exposed` are settings by which every
    account can switch the checks off, `shown` are those that tell every account the secret of a Super user. `white`
    of `several_files` cannot be told apart.
    """

    dialect: Dialect
    accounts: Mapping[str, Account] = field(default_factory=dict)
    white: frozenset[str] = frozenset()
    several_files: bool = False
    unsure: frozenset[str] = frozenset()
    complete: bool = True
    authorizes: bool = True
    exposed: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()
    notes: tuple[Note, ...] = ()


def differences(before: Account | None, after: Account | None) -> Iterator[str]:
    """What changes, in words without secrets."""
    if before is None or after is None:
        one = before or after
        if one is not None:
            sign = "+" if before is None else "-"
            yield f"{sign} secret {one.secret.fingerprint}"
            yield from (f"{sign} {word}" for word in _words(one))
            yield from (f"{sign} {rule}" for rule in one.rules)
        return
    if before.secret != after.secret:
        yield f"secret {before.secret.fingerprint} -> {after.secret.fingerprint}"
    old, new = _words(before), _words(after)
    yield from (f"- {word}" for word in old if word not in new)
    yield from (f"+ {word}" for word in new if word not in old)
    yield from (f"- {rule}" for rule in before.rules if rule not in after.rules)
    yield from (f"+ {rule}" for rule in after.rules if rule not in before.rules)


def outline(account: Account) -> str:
    """The same for accounts that may do the same, whatever their secrets; it says nothing of these."""
    told = "\n".join([*_words(account), *map(str, ordered(account.rules))])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _words(account: Account) -> list[str]:
    found = ["admin"] if account.admin else []
    found += [] if account.enabled else ["disabled"]
    for name, perms in (("topics", account.topic_default), ("groups", account.group_default)):
        found += [f"default of {name} {','.join(sorted(perms))}"] if perms else []
    return found + ([f"white addresses {account.white}"] if account.white else [])
