"""Which access control a broker uses: its configuration says what is enabled, its answers what it supports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from acl_sync import acl1, acl2
from acl_sync.exposure import exposed, shows_secrets
from acl_sync.model import Account, AclState, Dialect, Note
from replicator.client.brokers import read_settings
from replicator.client.endpoint import Endpoint
from replicator.errors import BrokerRefused, StartupError
from replicator.protocol.codes import Response

__all__ = ["BrokerAcl", "delete_account", "detect", "read", "write_account"]

#: From a broker that does not know the requests for its accounts.
_WAYS_OUT: Final = {
    Dialect.ACL1: "update it to 4.6 or later, or, if it is the source's, read its files with acl.source_dir",
    Dialect.ACL2: "update it: RocketMQ has these requests since 5.3",
}


@dataclass(frozen=True, slots=True)
class BrokerAcl:
    """What a broker speaks, whether it also looks at rights, and which of its settings every account may change, or
    see though they have a secret.
    """

    dialect: Dialect
    authorizes: bool = True
    exposed: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()


async def detect(broker: Endpoint) -> BrokerAcl:
    """What is switched on at `broker`. Where both are, 2.0 decides as well, and is the one that is synced.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
    """
    settings = await read_settings(broker)
    if settings.get("authenticationEnabled") == "true":
        authorizes = settings.get("authorizationEnabled") == "true"
        return BrokerAcl(Dialect.ACL2, authorizes, exposed(settings), shows_secrets(settings))
    if settings.get("aclEnable") == "true":
        return BrokerAcl(Dialect.ACL1)
    return BrokerAcl(Dialect.NONE)


async def read(broker: Endpoint, speech: BrokerAcl) -> AclState:
    """All accounts of `broker`.

    Raises:
        StartupError: it does not give them over the wire.
        BrokerRefused, Unreachable, RequestTimeout, ProtocolError: see there.
    """
    try:
        if speech.dialect is Dialect.ACL2:
            found = await acl2.read(broker, authorizes=speech.authorizes)
            state = replace(found, exposed=speech.exposed, shown=speech.shown)
        elif speech.dialect is Dialect.ACL1:
            state = await acl1.read(broker)
        else:
            state = AclState(dialect=Dialect.NONE, notes=(Note("", f"{broker.address} checks no accounts"),))
    except BrokerRefused as error:
        if error.code == Response.REQUEST_CODE_NOT_SUPPORTED:
            raise StartupError(
                f"{broker.address} does not return its ACL {speech.dialect} accounts over the wire",
                hint=_WAYS_OUT[speech.dialect],
            ) from None
        raise
    return state


async def write_account(broker: Endpoint, dialect: Dialect, account: Account, *, before: Account | None) -> None:
    """Creates `account` in the broker's dialect, or makes it so."""
    writer = acl1.write_account if dialect is Dialect.ACL1 else acl2.write_account
    await writer(broker, account, before=before)


async def delete_account(broker: Endpoint, dialect: Dialect, name: str) -> None:
    """Deletes an account."""
    await (acl1.delete_account if dialect is Dialect.ACL1 else acl2.delete_account)(broker, name)
