"""What a worker says of itself before it runs."""

from __future__ import annotations

import pytest

from replicator.api.server import bind
from replicator.errors import StartupError
from replicator.service import _address


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_where_rest_is_found(host: str, shown: str) -> None:
    """In brackets where the host has colons, or it could not be told from the port."""
    try:
        bound = bind(host, 0)
    except StartupError:
        pytest.skip("there is no such address on this machine")
    with bound:
        assert _address(bound) == f"{shown}:{bound.getsockname()[1]}"
