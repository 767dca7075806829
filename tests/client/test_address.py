"""Addresses are host and port, or refused."""

from __future__ import annotations

import pytest

from replicator.client.address import split_address


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:9876", ("127.0.0.1", 9876)), ("[::1]:10911", ("::1", 10911)), ("mq.example:1", ("mq.example", 1))],
)
def test_addresses_are_split(address: str, parts: tuple[str, int]) -> None:
    """Host and port, for IPv6 too."""
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address",
    [
        *("", ":1", "a", "a:", "a:b", "a:0", "a:65536", "a:-1", "a:1.5", "a:\u0661"),
        *("[:1", "[]:1", "]:1", "a]:1", "[a:1"),
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    """No host, no port, or no such port."""
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(address)
