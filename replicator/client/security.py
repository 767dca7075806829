"""What a connection needs to prove who it is and who the peer is: credentials and TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from replicator.client.address_map import AS_ADVERTISED, AddressMap
from replicator.client.broker_hosts import ANY_HOST, BrokerHosts
from replicator.client.socks import SocksProxy
from replicator.errors import ConfigError

__all__ = ["Credentials", "Security", "TlsMode", "tls_context"]

#: `off`: plaintext. `required`: encrypted, the peer is not verified. `verify`: encrypted, the peer's
#: certificate must come from a known CA and name the host.
TlsMode = Literal["off", "required", "verify"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """An account of ACL 1.0, or a user of ACL 2.0. The secret is never shown."""

    access_key: str
    secret_key: str

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, '********')"


@dataclass(slots=True)
class Security:
    """How all connections to one cluster are made, and to which hosts. All of them share one object."""

    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None
    broker_hosts: BrokerHosts = ANY_HOST
    address_map: AddressMap = AS_ADVERTISED
    socks: SocksProxy | None = None

    def renew(self, fresh: Security) -> None:
        """From now on requests are signed, and connections made, as `fresh` says; those that stand stay."""
        self.credentials, self.tls, self.socks = fresh.credentials, fresh.tls, fresh.socks


def tls_context(
    mode: TlsMode, *, ca_file: Path | None, cert_file: Path | None, key_file: Path | None
) -> ssl.SSLContext | None:
    """The TLS context of `mode`, TLS 1.2 or newer; None for `off`.

    Args:
        ca_file: PEM; without it `verify` trusts the system's CAs.
        cert_file: PEM, our own certificate chain (mutual TLS), with `key_file`.

    Raises:
        ConfigError: a file cannot be read or is no PEM of its kind.
    """
    if mode == "off":
        return None
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if mode == "required":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        if ca_file is not None:
            context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"tls.ca_file = {str(ca_file)!r} cannot be used ({error})",
            hint="name a PEM file of CA certificates",
        ) from None
    try:
        if cert_file is not None:
            context.load_cert_chain(cert_file, key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"tls.cert_file = {str(cert_file)!r} with tls.key_file = {str(key_file)!r} cannot be used ({error})",
            hint="name PEM files of a certificate and its unencrypted key",
        ) from None
    return context
