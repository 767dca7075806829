"""An HTTP server on loopback that names name servers, as RocketMQ's clients ask for them."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Served", "served"]


class Served:
    """An address server on loopback that answers with `body` and `status`."""

    def __init__(self, body: str, tls: ssl.SSLContext | None = None) -> None:
        self.body, self.status, self.asked = body, 200, 0
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.asked += 1
                data = served.body.encode()
                self.send_response(served.status if self.path == "/rocketmq/nsaddr" else 404)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server.server_address[1]}/rocketmq/nsaddr"


@contextmanager
def served(body: str, tls: ssl.SSLContext | None = None) -> Iterator[Served]:
    made = Served(body, tls)
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()
