"""Settings of REST and /metrics: the table `[rest]`."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from replicator.settings.clusters import is_loopback
from replicator.settings.secret_file import read_secret

__all__ = ["RestSettings", "RestTls"]


class RestTls(BaseModel):
    """TLS of REST and /metrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cert_file: Path | None = Field(
        None, description="PEM file of REST's certificate: REST is served over HTTPS then"
    )
    key_file: Path | None = Field(None, description="PEM file of that certificate's key")
    ca_file: Path | None = Field(None, description="PEM file of the CAs of client certificates that REST requires")

    @model_validator(mode="after")
    def _pairs(self) -> RestTls:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together: give both or neither")
        if self.ca_file is not None and self.cert_file is None:
            raise ValueError("client certificates need TLS: give cert_file and key_file too")
        for name, file in (("cert_file", self.cert_file), ("key_file", self.key_file), ("ca_file", self.ca_file)):
            if file is not None and not file.is_file():
                raise ValueError(f"{name} = {str(file)!r} is not a file: name a readable PEM file")
        return self


class RestSettings(BaseModel):
    """Where REST and /metrics are served, and who may use them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field("127.0.0.1", description="address of REST and /metrics; any but loopback needs a token")
    port: int = Field(8082, ge=0, le=65535, description="port of REST and /metrics; 0: any free one")
    token: SecretStr | None = Field(
        None,
        min_length=1,
        description="bearer token that requests must carry; from the environment or the file only",
    )
    token_file: Path | None = Field(None, description="file with that token, readable by its owner only")
    tls: RestTls = RestTls()

    @model_validator(mode="after")
    def _guarded(self) -> RestSettings:
        if self.token is not None and self.token_file is not None:
            raise ValueError("token and token_file are both set: keep one")
        if not (self.token or self.token_file or self.tls.ca_file) and not is_loopback(self.host):
            raise ValueError(
                f"host = {self.host!r} is not a loopback address: anyone who can reach it could stop or delete"
                " connectors. Set token (REPLICATOR_REST__TOKEN), token_file, or tls with client certificates"
            )
        return self

    def bearer(self) -> str | None:
        """What requests to REST must bring, if anything.

        Raises:
            ConfigError: its file cannot be read, or others can read it.
        """
        if self.token_file is not None:
            return read_secret("rest.token_file", self.token_file)
        return None if self.token is None else self.token.get_secret_value()
