"""Certificates of a sandbox cluster, RocketMQ's TLS settings that name them, and ours to connect to it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from replicator.errors import SandboxError
from replicator.extras import install_command

__all__ = ["TlsFiles", "files", "make"]

_NAMES = ("127.0.0.1", "127.0.0.2", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files, all signed by the test authority in `ca`, and the properties file for the JVMs."""

    ca: Path
    server_cert: Path
    server_key: Path
    client_cert: Path
    client_key: Path
    properties: Path

    def flags(self) -> tuple[str, ...]:
        return (
            f"-Dtls.config.file={self.properties}",
            "-Dtls.server.mode=enforcing",
            "-Dtls.enable=true",  # for connections between brokers and name servers
        )

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(str(self.client_cert), str(self.client_key))
        return context


def files(directory: Path) -> TlsFiles:
    """The paths of the files that `make` creates."""
    return TlsFiles(
        ca=directory / "ca.pem",
        server_cert=directory / "server.pem",
        server_key=directory / "server.key",
        client_cert=directory / "client.pem",
        client_key=directory / "client.key",
        properties=directory / "tls.properties",
    )


def make(directory: Path, *, client_auth: bool) -> TlsFiles:
    """Create an authority, a server and a client certificate, and `tls.properties`, in `directory`."""
    try:
        import trustme  # noqa: PLC0415 - of the extra [sandbox]: only TLS clusters need it
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    except ImportError as error:
        raise SandboxError("TLS clusters need the package trustme", hint=install_command("sandbox")) from error

    directory.mkdir(parents=True, exist_ok=True)
    made = files(directory)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(made.ca))
    for names, cert, key in (
        (_NAMES, made.server_cert, made.server_key),
        (("client.sandbox",), made.client_cert, made.client_key),
    ):
        leaf = authority.issue_cert(*names)
        cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        private = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), password=None)
        key.touch(mode=0o600)
        key.write_bytes(
            private.private_bytes(  # Netty reads PKCS #8 only
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    made.properties.write_text(_properties(made, client_auth=client_auth), encoding="utf-8")
    return made


def _properties(files: TlsFiles, *, client_auth: bool) -> str:
    settings = {
        "tls.test.mode.enable": "false",
        "tls.server.need.client.auth": "require" if client_auth else "none",
        "tls.server.authClient": str(client_auth).lower(),
        "tls.server.keyPath": files.server_key,
        "tls.server.certPath": files.server_cert,
        "tls.server.trustCertPath": files.ca,
        "tls.client.authServer": "true",
        "tls.client.keyPath": files.client_key,
        "tls.client.certPath": files.client_cert,
        "tls.client.trustCertPath": files.ca,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
