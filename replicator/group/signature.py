"""Signatures on the system topics: HMAC-SHA256 by a secret that all workers of a group share.

A signed body is the line `signed HEX GROUP` and behind it what `wire` has written. The signature covers which of
the two clusters it is for, the topic, the group and all of the rest, in which worker, incarnation and counter are.
It is checked before anything is decompressed or parsed.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from replicator.errors import ReplicatorError
from replicator.group.membership import Heartbeat
from replicator.group.wire import NewerForm, Unreadable, group_of, read_message
from replicator.routing.seal import Sealer
from replicator.settings import Settings
from replicator.settings.secret_file import read_secret

__all__ = ["Forged", "Signer", "Unsigned", "Verified", "WrongSignature"]

_MARK: Final = b"signed "
_HEX: Final = 64
#: Characters that a secret must have: shorter ones can be guessed from a signed message.
_LEAST: Final = 32
#: Bytes of a first line, at most.
_LINE: Final = 1024


class Forged(ReplicatorError):
    """A message on a system topic that is not proved to be of a worker of the group; `reason` is for metrics."""

    reason: ClassVar[str]


class Unsigned(Forged):
    """It has no signature."""

    reason = "unsigned"


class WrongSignature(Forged):
    """Its signature is by another secret, or of another message."""

    reason = "wrong_signature"


@dataclass(frozen=True, slots=True)
class Verified:
    """What `wire` reads; `signed` says that there was a signature, `known` that it was checked."""

    body: bytes
    signed: bool
    known: bool


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs and verifies with `secret`; without one it does neither.

    `accepts_unsigned`: messages without a signature are believed nevertheless, while workers get the secret one
    after the other. `cluster` is the one whose topics it is for: what is signed for one is nothing at the other.
    """

    secret: str | None = field(default=None, repr=False)
    accepts_unsigned: bool = False
    cluster: Literal["source", "target"] = "source"

    @classmethod
    def of(cls, settings: Settings) -> Signer:
        """That of a worker, or of a job beside it.

        Raises:
            ConfigError: the file of the secret cannot be used.
        """
        file = settings.worker_group_secret_file
        secret = None if file is None else read_secret("worker_group_secret_file", file, least=_LEAST)
        return cls(secret, settings.worker_group_accept_unsigned, settings.coordination)

    def sealer(self, target: str) -> Sealer | None:
        """What seals copies for the cluster with the id `target`; None without a secret."""
        return None if self.secret is None else Sealer(self.secret, target, self.accepts_unsigned)

    def sign(self, topic: str, group: str, body: bytes) -> bytes:
        """`body` as it is to be written to `topic`."""
        if self.secret is None:
            return body
        return b"%b%b %b\n%b" % (_MARK, self._digest(topic, group.encode(), body), group.encode(), body)

    def verify(self, topic: str, data: bytes, groups: Collection[str]) -> Verified | None:
        """What may be read of a message of `topic`; None where it is of none of `groups`.

        Raises:
            Forged: it is of one of them, but no worker of it wrote it.
            Unreadable: it is of nobody.
        """
        if not data.startswith(_MARK):
            if self.secret is None or self.accepts_unsigned:
                return Verified(data, signed=False, known=False)
            if group_of(data) in groups:
                raise Unsigned(
                    "a message of this group has no signature: "
                    "a worker without worker_group_secret_file, or a program outside the group, wrote it"
                )
            return None
        end = data.find(b"\n", 0, _LINE)
        given, _, group = data[len(_MARK) : max(end, 0)].partition(b" ")
        if group.decode(errors="replace") not in groups:
            return None
        body = data[end + 1 :]
        if self.secret is None:
            return Verified(body, signed=True, known=False)
        if len(given) != _HEX or not hmac.compare_digest(given, self._digest(topic, group, body)):
            raise WrongSignature(
                "a message of this group has a wrong signature: a worker with another secret, or a program outside"
                " the group, wrote it; set worker_group_secret_file of all workers to the same secret"
            )
        return Verified(body, signed=True, known=True)

    def claimed(self, data: bytes) -> str:
        """The group that a message says it is of, believed or not.

        Raises:
            Unreadable: it is of nobody.
        """
        if not data.startswith(_MARK):
            return group_of(data)
        line = data[len(_MARK) : max(data.find(b"\n", 0, _LINE), 0)]
        return line.partition(b" ")[2].decode(errors="replace")

    def heartbeat(self, topic: str, data: bytes, group: str) -> Heartbeat | None:
        """The heartbeat in `group` that a message of `topic` is; None where it is none that can be believed."""
        try:
            verified = self.verify(topic, data, (group,))
            envelope = None if verified is None else read_message(verified.body)
        except (Forged, Unreadable, NewerForm):
            return None
        return envelope.heartbeat if envelope is not None and envelope.group == group else None

    def _digest(self, topic: str, group: bytes, body: bytes) -> bytes:
        assert self.secret is not None  # noqa: S101 - both callers have seen to it
        place = f"{self.cluster}\n{topic}\n".encode()
        made = hmac.new(self.secret.encode(), b"%b%b\n" % (place, group), "sha256")
        made.update(body)
        return made.hexdigest().encode()
