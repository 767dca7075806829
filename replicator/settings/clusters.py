"""How a cluster is reached: addresses, credentials, TLS, a SOCKS proxy."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from replicator.settings.secret_file import read_secret
from replicator.settings.shown import is_collection, quoted
from replicator.settings.table import FilePath, Table

__all__ = [
    "Cluster",
    "ClusterSettings",
    "SocksSettings",
    "TlsSettings",
    "as_network",
    "comma_list",
    "expand_cluster",
    "is_address_server",
    "is_loopback",
    "split_at_commas",
    "valid_id",
]

_COMMA: Final = re.compile(r",(?!\d*\})")
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%a-z]+\]")
_BOTH_HOSTS: Final = re.compile(f"({_HOST.pattern})=({_HOST.pattern})")
_BOTH_PORTS: Final = re.compile(f"({_HOST.pattern}):[0-9]{{1,5}}=({_HOST.pattern}):[0-9]{{1,5}}")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_ID: Final = re.compile(r"[A-Za-z0-9_.:@-]{1,100}")


def split_at_commas(text: str) -> list[str]:
    """The parts of a text between commas; the comma of a quantifier like `{1,3}` is part of its expression."""
    return _COMMA.split(text)


def comma_list(value: object) -> object:
    """The parts of a text between commas, those of quantifiers like `{1,3}` left out, or the items of a list.

    They have no spaces around them, since no name has any; empty ones are left out.

    Raises:
        ValueError: it is neither, or a list of something else than texts.
    """
    if isinstance(value, str):
        value = split_at_commas(value)
    if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(each, str) for each in value):
        raise ValueError('give a list of texts, as in ["orders", "payments"], or one text with commas')
    return [part.strip() for part in value if part.strip()]


def _addresses(value: object) -> object:
    if isinstance(value, str) and is_collection(value):
        raise ValueError("give addresses alone, with commas, and each other setting by its own name")
    return comma_list(value.replace(";", ",")) if isinstance(value, str) else value


def _is_address(value: str) -> bool:
    host, _, port = value.rpartition(":")
    return bool(_HOST.fullmatch(host) and _PORT.fullmatch(port) and 0 < int(port) < 65536)


def is_address_server(namesrv: str) -> bool:
    """Whether it is the URL of an address server, and not the `host:port` of a name server."""
    return namesrv.startswith(("http://", "https://"))


def _check_address_server(url: str, given: list[str]) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if not _HOST.fullmatch(host):
            ip_address(host)
        right = parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        right = False
    if not right or parts.path in ("", "/") or parts.fragment or not re.fullmatch(r"[!-~]+", url):
        raise ValueError(
            f"{quoted(url)} is not the URL of an address server, which is http://HOST:8080/rocketmq/nsaddr"
            " by default"
        )
    if len(given) > 1:
        raise ValueError(f"{quoted(url)} is an address server, which names the name servers: give it alone")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what is served at `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def as_network(host: str) -> IPv4Network | IPv6Network | None:
    """An address, or a network such as `10.1.0.0/16`; None: a host name.

    Raises:
        ValueError: the text is not one of them.
    """
    if _HOST.fullmatch(host) and not host.startswith("[") and not host.replace(".", "").isdecimal():
        return None
    return ip_network(host.removeprefix("[").removesuffix("]"))


def valid_id(value: str) -> bool:
    """Whether `value` can stand in provenance as a cluster's id."""
    return _ID.fullmatch(value) is not None


class TlsSettings(Table):
    """TLS to the name servers and brokers of a cluster."""

    mode: Literal["off", "required", "verify"] = Field(
        "off", description="`required` encrypts, `verify` also checks the peer's certificate and host name"
    )
    ca_file: FilePath = Field(None, description="PEM file of the CAs to trust (default: the system's)")
    cert_file: FilePath = Field(None, description="PEM file of our certificate, for mutual TLS")
    key_file: FilePath = Field(None, description="PEM file of our certificate's key")

    @model_validator(mode="after")
    def _pairs(self) -> TlsSettings:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together: give both or neither")
        if self.mode == "required" and self.ca_file:
            raise ValueError(
                "mode is required, which does not look at the peer's certificate, so ca_file would have no effect:"
                " set mode to verify, or leave ca_file out"
            )
        if self.mode == "off" and (self.ca_file or self.cert_file):
            raise ValueError("mode is off, so the certificate files would have no effect: set mode to verify")
        return self


class SocksSettings(Table):
    """A SOCKS5 proxy that the name servers and brokers of a cluster are reached through."""

    address: str | None = Field(
        None, description="SOCKS5 proxy, host:port, that name servers and brokers are reached through"
    )
    username: str | None = Field(None, min_length=1, max_length=255, description="user at the proxy")
    password: SecretStr | None = Field(
        None, min_length=1, max_length=255, description="its password; from the environment or the file only"
    )
    password_file: FilePath = Field(None, description="file with the password, readable by its owner only")

    @field_validator("address")
    @classmethod
    def _host_and_port(cls, value: str | None) -> str | None:
        if value is not None and not _is_address(value):
            raise ValueError(f"{quoted(value)} is not host:port; SOCKS proxies listen on port 1080 by default")
        return value

    @model_validator(mode="after")
    def _together(self) -> SocksSettings:
        if self.password is not None and self.password_file is not None:
            raise ValueError("password and password_file are both set: keep one")
        if (self.username is None) != (self.password is None and self.password_file is None):
            raise ValueError("username and a password go together: give both or neither")
        if self.username is not None and self.address is None:
            raise ValueError("username without address would have no effect: give the proxy's address")
        return self

    def secret(self) -> str | None:
        """The password itself, if there is one.

        Raises:
            ConfigError: its file cannot be read, or others can read it.
        """
        if self.password_file is not None:
            return read_secret("socks.password_file", self.password_file)
        return None if self.password is None else self.password.get_secret_value()


class ClusterSettings(Table):
    """One cluster."""

    namesrv: Annotated[list[str], BeforeValidator(_addresses), Field(min_length=1)] = Field(
        description="name servers, host:port, separated by commas; or the URL of an address server, which"
        " names them, as http://HOST:8080/rocketmq/nsaddr"
    )
    proxy: bool = Field(
        False,
        description="`namesrv` names the remoting ports of Proxies (8080 by default), where neither name servers"
        " nor brokers are reached: topics of a source that are named can be copied through them",
    )
    id: str | None = Field(None, description="the cluster's id in provenance (default: its name)")
    cluster: str | None = Field(
        None, min_length=1, description="the cluster's name, where its name servers know several"
    )
    broker_hosts: Annotated[list[str], BeforeValidator(_addresses)] = Field(
        [],
        description="hosts or networks (10.1.0.0/16) that brokers may have; an answer of a name server that names"
        " another one is not used (default: all)",
    )
    address_map: Annotated[list[str], BeforeValidator(_addresses)] = Field(
        [],
        description="where brokers are reached from here, ADVERTISED=REACHABLE each: hosts (10.0.0.5=gateway), or"
        " hosts with ports (10.0.0.5:10911=gateway:31011), also VIP ports",
    )
    access_key: str | None = Field(None, min_length=1, description="account (ACL 1.0) or user (ACL 2.0)")
    secret_key: SecretStr | None = Field(
        None, min_length=1, description="its secret; from the environment or the file only"
    )
    secret_key_file: FilePath = Field(None, description="file with the secret, readable by its owner only")
    tls: TlsSettings = TlsSettings()
    socks: SocksSettings = SocksSettings()

    @field_validator("namesrv")
    @classmethod
    def _host_and_port(cls, value: list[str]) -> list[str]:
        for address in value:
            if is_address_server(address):
                _check_address_server(address, value)
                continue
            if not _is_address(address):
                raise ValueError(f"{quoted(address)} is not host:port; name servers listen on port 9876 by default")
        return value

    @field_validator("broker_hosts")
    @classmethod
    def _hosts_and_networks(cls, value: list[str]) -> list[str]:
        for host in value:
            try:
                as_network(host)
            except ValueError:
                raise ValueError(
                    f"{quoted(host)} is not a host, address or network: brokers' ports are not named, and a"
                    " network's bits behind its prefix are 0, as in 10.1.0.0/16"
                ) from None
        return value

    @field_validator("address_map")
    @classmethod
    def _pairs(cls, value: list[str]) -> list[str]:
        for entry in value:
            if not (_BOTH_HOSTS.fullmatch(entry) or _BOTH_PORTS.fullmatch(entry)):
                raise ValueError(
                    f"{quoted(entry)} is not ADVERTISED=REACHABLE, both hosts (10.0.0.5=gateway) or both with ports"
                    " (10.0.0.5:10911=gateway:31011)"
                )
        return value

    @field_validator("id")
    @classmethod
    def _is_id(cls, value: str | None) -> str | None:
        if value is not None and not valid_id(value):
            raise ValueError("an id has up to 100 letters, digits and _ . : @ -")
        return value

    @model_validator(mode="after")
    def _behind_a_proxy(self) -> ClusterSettings:
        for name, given in (("broker_hosts", self.broker_hosts), ("address_map", self.address_map)):
            if self.proxy and given:
                raise ValueError(f"proxy and {name} are both set, but through a Proxy no broker's address is used")
        return self

    @model_validator(mode="after")
    def _credentials(self) -> ClusterSettings:
        if self.secret_key is not None and self.secret_key_file is not None:
            raise ValueError("secret_key and secret_key_file are both set: keep one")
        if (self.access_key is None) != (self.secret_key is None and self.secret_key_file is None):
            raise ValueError("access_key and a secret go together: give both or neither")
        return self

    def secret(self) -> str:
        """The secret itself.

        Raises:
            ConfigError: its file cannot be read, or others can read it.
        """
        if self.secret_key is not None:
            return self.secret_key.get_secret_value()
        assert self.secret_key_file is not None  # noqa: S101 - _credentials has seen to it
        return read_secret("secret_key_file", self.secret_key_file)


def expand_cluster(value: object) -> object:
    """A cluster given by its name servers alone, as the table that it stands for."""
    return {"namesrv": value} if isinstance(value, str | list) else value


Cluster = Annotated[ClusterSettings, BeforeValidator(expand_cluster)]
