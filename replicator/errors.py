"""What can go wrong, as types: who is at fault, and what the operator can do about it.

All are a `ReplicatorError`. `ConfigError` is the user's input, `StartupError` the surroundings before anything was
written, `ProtocolError` a peer's bytes. `ClientError` is talking to a cluster: `Unreachable`, `RequestTimeout`
(outcome unknown), `BrokerRefused`. `SandboxError` is this machine's clusters.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from replicator.exit_codes import ExitCode

__all__ = [
    "BrokerRefused",
    "ClientError",
    "ConfigError",
    "NoTls",
    "NothingShown",
    "ProtocolError",
    "ReplicatorError",
    "RequestTimeout",
    "SandboxError",
    "StartupError",
    "Unreachable",
    "is_absence",
    "named",
]


class ReplicatorError(Exception):
    """Base of all errors raised on purpose. `hint` is the way out, for a person; `exit_code` that of a command."""

    exit_code: ClassVar[ExitCode] = ExitCode.UNUSABLE

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


class ConfigError(ReplicatorError):
    """A setting cannot be used. Names the field, the value and the way out."""

    exit_code = ExitCode.BAD_CONFIG


class StartupError(ReplicatorError):
    """The surroundings do not allow a start; nothing has been written anywhere."""


class ProtocolError(ReplicatorError):
    """A peer broke the remoting protocol; the connection cannot be used further."""


class ClientError(ReplicatorError):
    """Talking to a cluster failed."""


class Unreachable(ClientError):
    """No connection to `address`, or it was lost before the answer came."""

    def __init__(self, address: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{address} cannot be reached ({reason})", hint=hint)
        self.address = address
        self.reason = reason


class NoTls(Unreachable):
    """Somebody is there, but the two sides cannot agree on TLS: waiting does not help, other settings do."""


class WrongBroker(Unreachable):
    """Another broker answers at the address: brokers have swapped addresses, or it belongs to another cluster."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason, hint="it is used again once the name servers know where the broker is")


class NothingShown(Unreachable):
    """A broker says that a queue goes on, and returns no messages of it: waiting may help, as if it were away."""

    def __init__(self, address: str, queue: str, offset: int, end: int) -> None:
        super().__init__(
            address, f"it returns no messages of {queue} at offset {offset}, though the queue ends at {end}"
        )


class WrongEnds(Unreachable):
    """A broker says that a queue begins behind its end, and serves none of it: as if it were away."""

    def __init__(self, address: str, begin: int, end: int) -> None:
        super().__init__(
            address,
            f"it says that the queue begins at {begin} and ends at {end}",
            hint="if this persists, restart that broker: it then finds where the queue begins",
        )


class RequestTimeout(ClientError):
    """No answer within `seconds`; whether the request was carried out is unknown."""

    def __init__(self, address: str, code: int, seconds: float) -> None:
        super().__init__(f"{address} did not answer {named(code, 'request')} within {seconds:g} s")
        self.address = address
        self.code = code
        self.seconds = seconds


class BrokerRefused(ClientError):
    """The peer answered with response code `code` and `remark`."""

    def __init__(self, address: str, request: int, code: int, remark: str, *, hint: str = "") -> None:
        super().__init__(
            f"{address} refused {named(request, 'request')} with {named(code, 'code')}: {remark or 'no remark'}",
            hint=hint,
        )
        self.address = address
        self.request = request
        self.code = code
        self.remark = remark


class SandboxError(ReplicatorError):
    """A sandbox cluster could not be fetched, started or ended."""


def named(code: int, kind: str) -> str:
    """A code and the name that it has as a member of an enumeration; `kind` and the number of any other."""
    return f"{code.name} ({code:d})" if isinstance(code, IntEnum) else f"{kind} {code}"


def is_absence(error: ReplicatorError) -> bool:
    """Whether nobody was there; somebody who is there but wants other TLS settings is not away."""
    return isinstance(error, Unreachable | RequestTimeout) and not isinstance(error, NoTls)
