"""A spec refuses what no RocketMQ of that version can do, before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.sandbox import ClusterSpec


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"version": "5.3.2"}, "5.3.2"),
        ({"brokers": 0}, "brokers 0"),
        ({"name_servers": 0}, "name_servers 0"),
        ({"name": "a b"}, "a b"),
        ({"acl": "3.0"}, "acl '3.0'"),
        ({"acl": "1.0", "version": "5.3.3"}, "RocketMQ 5.3.3 has no ACL 1.0"),
        ({"acl": "2.0", "version": "4.9.7"}, "RocketMQ 4.9.7 has no ACL 2.0"),
        ({"acl": "2.0", "version": "5.1.4"}, "RocketMQ 5.1.4 has no ACL 2.0"),
        ({"ha": "dledger"}, "ha 'dledger'"),
        ({"ha": "controller", "version": "4.9.7"}, "RocketMQ 4.9.7 has no controller"),
        ({"ha": "controller", "tls": True}, "neither acl, tls nor slaves"),
        ({"tls_client_auth": True}, "needs tls"),
        ({"tls": True, "tls_permissive": True}, "both set"),
        ({"proxy": True, "version": "4.9.7"}, "RocketMQ 4.9.7 has no Proxy"),
        ({"proxy": True, "acl": "2.0"}, "proxy does not go with acl"),
        ({"broker_ip": "127.0.0.2", "version": "4.9.7"}, "broker_ip 127.0.0.2"),
    ],
)
def test_refuses_what_cannot_work(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ClusterSpec(**{"name": "east"} | fields)


def test_specs_are_keys() -> None:
    first = ClusterSpec(name="east", properties={"a": "1", "b": "2"})
    same = ClusterSpec(name="east", properties={"b": "2", "a": "1"})
    assert {first: "found"}[same] == "found"
    assert first != ClusterSpec(name="east", properties={"a": "1", "b": "3"})
    assert first != ClusterSpec(name="east", properties={"a": "1", "b": "2"}, slaves=True)


def test_names_the_masters() -> None:
    assert ClusterSpec(name="east", brokers=3).broker_names() == ["east-a", "east-b", "east-c"]
