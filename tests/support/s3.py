"""An S3 server on loopback (moto's), empty for each test; it can refuse everybody."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

import pytest

__all__ = ["KEY", "S3", "SECRET", "s3"]

KEY: Final = "AKIAOFTHETESTS"
SECRET: Final = "s3cr3t+of/the=tests"

#: A process of its own: PyArrow holds this one's interpreter when it closes a file that nobody has closed.
_SERVER: Final = """
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""


class S3:
    """The server at `host`, `127.0.0.1:PORT`, with a bucket called `bucket`."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._ask("POST", "/moto-api/reset")
        self._ask("PUT", "/bucket")

    @property
    def environment(self) -> dict[str, str]:
        """What a process finds it by, and an account there."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.host}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def uri(self, path: str) -> str:
        """A URI that says all of that; `path` begins with the bucket."""
        account = f"{KEY}:{quote(SECRET, safe='')}"
        return f"s3://{account}@{path}?region=us-east-1&scheme=http&endpoint_override={self.host}"

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Nobody has rights meanwhile."""
        self._ask("POST", "/moto-api/reset-auth", b"0")
        try:
            yield
        finally:
            self._ask("POST", "/moto-api/reset-auth", b"inf")

    def _ask(self, method: str, path: str, data: bytes = b"") -> None:
        headers = {"Content-Type": "text/plain"}  # else it is taken for a form
        asked = urllib.request.Request(f"http://{self.host}{path}", data, headers, method=method)
        with urllib.request.urlopen(asked):
            pass


@pytest.fixture(scope="session")
def _s3_server() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdout is not None
        yield f"127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


@pytest.fixture
def s3(_s3_server: str) -> S3:
    return S3(_s3_server)
