"""Values that no worker can run with are refused by name, and what goes together is looked at together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.settings import load


def flags(**values: Any) -> dict[str, Any]:
    """The two clusters, with `source__x=…` as nested values."""
    made: dict[str, Any] = {"source": {"namesrv": "s:1"}, "target": {"namesrv": "t:1"}}
    for name, value in values.items():
        table, _, last = name.rpartition("__")
        (made[table] if table else made)[last] = value
    return made


def mistakes(given: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        load(given, file=None)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"metadata_refresh_interval": "inf"}, ["metadata_refresh_interval", "'inf'", "finite number"]),
        ({"session_timeout": "inf"}, ["session_timeout", "'inf'", "finite number"]),
        ({"drain_timeout": "1e300"}, ["drain_timeout", "'1e300'", "31536000"]),
        ({"sync_acl_interval": "inf"}, ["sync_acl_interval", "'inf'", "finite number"]),
        ({"memory_bytes": "9" * 23}, ["memory_bytes", "9" * 23, "give at most"]),
        ({"memory_bytes": "9" * 5000}, ["memory_bytes", "give bytes, or a number with KiB, MiB or GiB"]),
        ({"rate_messages": "1" + "0" * 23}, ["rate_messages", "give at most"]),
        ({"rate_bytes": "1" + "0" * 23}, ["rate_bytes", "give at most"]),
        ({"batch_bytes": "0"}, ["batch_bytes", "give at least 1"]),
        ({"store_path": ""}, ["store_path", "''", "name a path, or leave it out"]),
        ({"file_connector_dir": " "}, ["file_connector_dir", "' '", "name a path, or leave it out"]),
        ({"dead_letter_topic": "a b"}, ["dead_letter_topic", "'a b'", "127 letters, digits"]),
        ({"spark_master": ""}, ["spark_master", "''", "give a text that is not empty"]),
        ({"source__cluster": ""}, ["source.cluster", "''", "give a text that is not empty"]),
        (
            {"source__access_key": "", "source__secret_key": "x"},
            ["source.access_key", "''", "give a text that is not empty"],
        ),
        ({"source__namesrv": "ftp://a:9876"}, ["source.namesrv", "'ftp://a:9876' is not host:port"]),
        ({"source__namesrv": "http://a:9876"}, ["source.namesrv", "is not the URL", "/rocketmq/nsaddr by default"]),
        ({"source__namesrv": "http://:8080/x"}, ["source.namesrv", "'http://:8080/x' is not the URL"]),
        ({"source__namesrv": "http://a:0/x"}, ["source.namesrv", "'http://a:0/x' is not the URL"]),
        ({"source__namesrv": "http://me:pw@a/x"}, ["source.namesrv", "is not the URL"]),
        ({"source__namesrv": "http://a/x,b:1"}, ["source.namesrv", "'http://a/x'", "give it alone"]),
        ({"source__socks": {"address": "a"}}, ["source.socks.address", "'a' is not host:port", "1080"]),
        ({"target__socks": {"address": "a:1", "username": "u"}}, ["target.socks", "username and a password"]),
        ({"target__socks": {"username": "u", "password": "p"}}, ["target.socks", "without address"]),
        (
            {"target__socks": {"address": "a:1", "username": "u", "password": "p", "password_file": "f"}},
            ["target.socks", "password and password_file are both set"],
        ),
        ({"source__namesrv": "a b:9876"}, ["source.namesrv", "'a b:9876' is not host:port"]),
        ({"source__namesrv": "a:١٢٣"}, ["source.namesrv", "is not host:port"]),
        ({"source__broker_hosts": "10.1.0.7/16"}, ["source.broker_hosts", "'10.1.0.7/16'", "as in 10.1.0.0/16"]),
        ({"source__address_map": "a"}, ["source.address_map", "'a'", "is not ADVERTISED=REACHABLE"]),
        ({"target__address_map": "a=b,a:10911=b"}, ["target.address_map", "'a:10911=b'", "both with ports"]),
        ({"target__address_map": "a=b=c"}, ["target.address_map", "'a=b=c'"]),
        ({"source__broker_hosts": "a:10911"}, ["source.broker_hosts", "'a:10911'", "ports are not named"]),
        ({"source__namesrv": "user@a:1"}, ["source.namesrv", "is not host:port"]),
        (
            {"source__tls": {"mode": "required", "ca_file": "/x"}},
            ["source.tls", "ca_file would have no effect", "set mode to verify"],
        ),
        (
            {"worker_group_accept_unsigned": "true"},
            ["worker_group_accept_unsigned has no effect without worker_group_secret_file"],
        ),
        ({"sync": "acl", "rename": "{source}-{topic}"}, ["sync has acl and rename is set"]),
        ({"sync": "acl"}, ["sync has acl", "`replicator secret FILE`", "worker_group_secret_file"]),
    ],
)
def test_a_value_out_of_all_bounds_has_one_line(given: dict[str, Any], words: list[str]) -> None:
    (line,) = mistakes(flags(**given)).splitlines()
    for word in words:
        assert word in line


@pytest.mark.parametrize("url", ["http://a:8080/rocketmq/nsaddr", "https://[::1]/ns?unit=a"])
def test_an_address_server(url: str) -> None:
    assert load(flags(source__namesrv=url), file=None).source.namesrv == [url]


@pytest.mark.parametrize("address", ["[::1]:9876", "a.b-c_d:1", "10.0.0.1:65535", "[fe80::1%eth0]:1"])
def test_addresses_of_name_servers(address: str) -> None:
    assert load(flags(source__namesrv=address), file=None).source.namesrv == [address]


def test_accounts_are_synced_only_by_a_group_that_signs(tmp_path: Path) -> None:
    """Or by a worker alone, which reads no system topic."""
    file = str(tmp_path / "secret")
    assert load(flags(sync="acl", worker_group_secret_file=file), file=None).is_signed
    assert not load(flags(sync="acl", standalone=True), file=None).is_signed
    both = flags(sync="acl", worker_group_secret_file=file, worker_group_accept_unsigned=True)
    assert "without worker_group_accept_unsigned" in mistakes(both)


def test_waiting_messages_are_parked_by_default_where_that_can_be() -> None:
    assert "pending" in load(flags(), file=None).sync
    assert "pending" in load(flags(sql="a = 1"), file=None).sync
    assert load(flags(transforms="t"), file=None).sync == ["topics", "groups", "offsets"]
    assert load(flags(transforms="t", sync="pending"), file=None).sync == ["pending"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"workers": "3", "rest": {"port": "65534"}}, ["rest.port = 65534", "65536 is none", "a lower port"]),
        ({"workers": "2", "worker_id": "x" * 99}, ["worker_id = 'xxx", "too long for 2 workers"]),
        ({"workers": "10", "worker_id": "x" * 98}, ["worker_id = 'xxx", "too long for 10 workers"]),
    ],
)
def test_what_does_not_do_for_the_last_of_several_workers(given: dict[str, Any], words: list[str]) -> None:
    """It is refused before the first one starts."""
    told = mistakes(flags(**given))
    assert all(word in told for word in words)


@pytest.mark.parametrize(
    "given",
    [
        {"workers": "2", "rest": {"port": "65534"}},
        {"workers": "64", "rest": {"port": "0"}},
        {"workers": "9", "worker_id": "x" * 98},
        {"workers": "1", "worker_id": "x" * 100, "rest": {"port": "65535"}},
    ],
)
def test_what_just_does_for_the_last_of_several_workers(given: dict[str, Any]) -> None:
    load(flags(**given), file=None)
