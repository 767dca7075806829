"""Clusters that insist on accounts or TLS: how a worker is let in, and whether it keeps the secret."""

from __future__ import annotations

import base64
from urllib.parse import quote

from replicator.sandbox import Cluster
from tests.support.worker import Worker, signing

__all__ = ["access", "assert_hidden", "shown"]


def access(side: str, cluster: Cluster, *, secret: str | None = None, tls: str = "verify") -> dict[str, str]:
    """The environment of a worker whose `SOURCE` or `TARGET` is `cluster`, and who may use it.

    `tls` is the mode where it has TLS.
    """
    found: dict[str, str] = {}
    if cluster.access_key:
        found |= signing(side, cluster.access_key, secret or cluster.secret_key)
    if cluster.spec.tls:
        found[f"REPLICATOR_{side}__TLS__MODE"] = tls
        if tls == "verify":
            found[f"REPLICATOR_{side}__TLS__CA_FILE"] = str(cluster.tls_files.ca)
        if cluster.spec.tls_client_auth:
            found[f"REPLICATOR_{side}__TLS__CERT_FILE"] = str(cluster.tls_files.client_cert)
            found[f"REPLICATOR_{side}__TLS__KEY_FILE"] = str(cluster.tls_files.client_key)
    return found


def assert_hidden(secret: str, worker: Worker, *more: str) -> None:
    """In no log, state file or page of HTTP, nor in `more`."""
    files = worker.store.iterdir() if worker.store.exists() else ()  # none, where the worker was refused
    written = [worker.log, *more, *(path.read_text() for path in files if path.is_file())]
    if worker.port:
        written += [str(worker.get(path)) for path in ("/metrics", "/status", "/status/queues", "/openapi.json")]
    assert not shown(secret, *written)


def shown(secret: str, *written: str) -> list[str]:
    """The forms in which a secret stands in texts: plain, in base64, URL-encoded."""
    forms = {secret, base64.b64encode(secret.encode()).decode(), quote(secret, safe="")}
    return [form for form in forms for text in written if form in text]
