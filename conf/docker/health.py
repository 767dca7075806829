"""Whether the worker of this container answers /health/live, where and over what its environment says.

Settings of REST that are in a file must be here too: REPLICATOR_REST__HOST and …__PORT; of …__TLS__ CERT_FILE,
KEY_FILE and CA_FILE. Where REST requires client certificates, it is shown the worker's own. If the clients' CA has
not signed that one, or it is for servers only, HEALTH_CERT_FILE and HEALTH_KEY_FILE name another.
"""

import http.client
import os
import ssl

#: What is served at all addresses is served at this one.
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
#: For one step: the image's HEALTHCHECK gives 5 s.
SECONDS = 4


def setting(name: str) -> str:
    """A setting of REST; empty where there is none."""
    return os.environ.get(f"REPLICATOR_REST__{name}", "")


def tls() -> ssl.SSLContext:
    """REST's certificate is not checked: it is for the name that others use, and nobody is in between here."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if setting("TLS__CA_FILE"):
        cert = os.environ.get("HEALTH_CERT_FILE") or setting("TLS__CERT_FILE")
        context.load_cert_chain(cert, os.environ.get("HEALTH_KEY_FILE") or setting("TLS__KEY_FILE"))
    return context


def status(host: str, port: int) -> int:
    """Of the answer. A connection alone says nothing: the kernel accepts it for a worker that hangs."""
    connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    if setting("TLS__CERT_FILE"):
        connection = http.client.HTTPSConnection(host, port, timeout=SECONDS, context=tls())
    connection.request("GET", "/health/live")
    return connection.getresponse().status


host, port = setting("HOST") or "127.0.0.1", int(setting("PORT") or 8082)
host = LOOPBACK.get(host, host)
try:
    answered = status(host, port)
except (OSError, http.client.HTTPException) as error:  # includes OpenSSL's errors
    raise SystemExit(f"no answer of /health/live at {host}, port {port}: {error}") from None
if answered != 200:
    raise SystemExit(f"/health/live at {host}, port {port} answered {answered}")
