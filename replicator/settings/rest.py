"""Settings of REST and /metrics: the table `[rest]`."""

from __future__ import annotations

import os
import re
from typing import Final

from pydantic import Field, SecretStr, model_validator

from replicator.errors import ConfigError
from replicator.settings.clusters import is_loopback
from replicator.settings.secret_file import read_secret
from replicator.settings.shown import quoted
from replicator.settings.table import FilePath, Table

__all__ = ["RestSettings", "RestTls", "refuse_unfit_token"]

#: The setting of each role's token.
_TOKENS: Final = {"admin": "token", "operate": "operate_token", "read": "read_token"}
_VISIBLE: Final = re.compile(r"[!-~]([ -~]*[!-~])?")


def refuse_unfit_token(name: str, token: str) -> None:
    """A token comes in a header.

    Raises:
        ConfigError: it cannot stand there; the error has its `name` alone.
    """
    if not _VISIBLE.fullmatch(token):
        raise ConfigError(
            f"{name} has characters that cannot stand in a header",
            hint="leave out a line end or a space around it, or make another one with `replicator secret FILE`",
        )


class RestTls(Table):
    """TLS of REST and /metrics."""

    cert_file: FilePath = Field(None, description="PEM file of REST's certificate: REST is served over HTTPS then")
    key_file: FilePath = Field(None, description="PEM file of that certificate's key")
    ca_file: FilePath = Field(None, description="PEM file of the CAs of client certificates that REST requires")

    @model_validator(mode="after")
    def _pairs(self) -> RestTls:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together: give both or neither")
        if self.ca_file is not None and self.cert_file is None:
            raise ValueError("client certificates need TLS: give cert_file and key_file too")
        for name, file in (("cert_file", self.cert_file), ("key_file", self.key_file), ("ca_file", self.ca_file)):
            # Not by pathlib, which raises where it may not look.
            if file is not None and not os.path.isfile(file):  # noqa: PTH113
                raise ValueError(f"{name} = {str(file)!r} is not a file: name a readable PEM file")
        return self


class RestSettings(Table):
    """Where REST and /metrics are served, and who may use them."""

    host: str = Field("127.0.0.1", description="address of REST and /metrics; any but loopback needs a token")
    port: int = Field(8082, ge=0, le=65535, description="port of REST and /metrics; 0: any free one")
    token: SecretStr | None = Field(
        None,
        min_length=1,
        description="bearer token of the role admin, which may do all; from the environment or the file only",
    )
    token_file: FilePath = Field(None, description="file with the admin token, readable by its owner only")
    operate_token: SecretStr | None = Field(
        None,
        min_length=1,
        description="token of the role operate: all but creating, changing and deleting connectors, and giving up"
        " brokers",
    )
    operate_token_file: FilePath = Field(None, description="file with the token of the role operate")
    read_token: SecretStr | None = Field(
        None, min_length=1, description="token of the role read: shows everything, changes nothing"
    )
    read_token_file: FilePath = Field(None, description="file with the token of the role read")
    tls: RestTls = RestTls()

    @model_validator(mode="after")
    def _guarded(self) -> RestSettings:
        for name in _TOKENS.values():
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"{name} and {name}_file are both set: keep one")
        if self.is_open and not is_loopback(self.host):
            raise ValueError(
                f"host = {quoted(self.host)} is not a loopback address: anyone who can reach it could stop or"
                " delete connectors. Set token (REPLICATOR_REST__TOKEN), token_file, or tls with client"
                " certificates"
            )
        return self

    @property
    def is_open(self) -> bool:
        """Whether neither a token nor a certificate is asked for."""
        files = [getattr(self, f"{name}_file") for name in _TOKENS.values()]
        return not any((*(getattr(self, name) for name in _TOKENS.values()), *files, self.tls.ca_file))

    def bearers(self) -> dict[str, str]:
        """What requests to REST must bring, by role.

        Raises:
            ConfigError: a file cannot be read, or others can read it; a token cannot stand in a header, or has two
                roles.
        """
        found: dict[str, str] = {}
        for role, name in _TOKENS.items():
            file, given = getattr(self, f"{name}_file"), getattr(self, name)
            if file is None and given is None:
                continue
            token = given.get_secret_value() if file is None else read_secret(f"rest.{name}_file", file)
            refuse_unfit_token(f"rest.{name}", token)
            if token in found.values():
                raise ConfigError(f"rest.{name} is also that of another role", hint="give each a token of its own")
            found[role] = token
        return found
