"""Whether the worker of this container answers: at the port and over what its environment says.

Settings of REST that are in a file must be here too: REPLICATOR_REST__PORT, REPLICATOR_REST__TLS__CERT_FILE.
"""

import http.client
import os
import ssl

PORT = int(os.environ.get("REPLICATOR_REST__PORT", "8082"))

if "REPLICATOR_REST__TLS__CERT_FILE" in os.environ:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The certificate is for the name that others use, and nobody is between us and ourselves.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", PORT, timeout=4, context=context)
else:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=4)
connection.request("GET", "/health/live")
raise SystemExit(connection.getresponse().status != 200)
