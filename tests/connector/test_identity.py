"""The two clusters are two, have different ids, and keep them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from structlog.testing import capture_logs

from replicator.client.cluster import Broker, Topology
from replicator.connector.identity import (
    identify,
    is_of_group,
    refuse_other_group,
    refuse_same_cluster,
    refuse_same_names,
)
from replicator.errors import StartupError
from replicator.routing.options import Identity
from replicator.settings import Settings, load


def topology(cluster: str, **brokers: str) -> Topology:
    return Topology(cluster, {name: Broker(name, {0: address}) for name, address in brokers.items()})


def settings(source: str | None = None, target: str | None = None, **more: str) -> Settings:
    sides: dict[str, dict[str, str]] = {"source": {"namesrv": "s:1"}, "target": {"namesrv": "t:1"}}
    for side, name in (("source", source), ("target", target)):
        if name is not None:
            sides[side]["id"] = name
    return load(sides | more, file=None)


def test_a_shared_broker_is_one_cluster() -> None:
    """Whatever the clusters are called; one address is enough."""
    east = topology("east", a="h:1", b="h:2")
    with pytest.raises(StartupError, match="the same cluster: both have the broker b at h:2") as caught:
        refuse_same_cluster(east, topology("west", c="h:2"))
    assert "--target" in caught.value.hint


def test_a_shared_slave_is_one_cluster() -> None:
    """Members count by their addresses, not by their ids."""
    with pytest.raises(StartupError, match="same cluster"):
        refuse_same_cluster(topology("east", a="h:1"), Topology("x", {"a": Broker("a", {1: "h:1"})}))


def test_two_clusters_may_have_brokers_of_one_name() -> None:
    """`broker-a` is everywhere."""
    east, west = topology("east", a="h:1"), topology("west", a="h:2")
    refuse_same_cluster(east, west)
    assert identify(settings(), east, west, {}) == Identity("east", "west")


def test_behind_a_proxy_names_have_to_tell_two_clusters_apart() -> None:
    """Addresses do not: all brokers have that of the Proxy."""
    here, there = topology("c", a="p:1", b="p:1"), topology("c", b="h:1")
    with pytest.raises(
        StartupError, match="may be the same cluster: both are called c and have a broker b"
    ) as caught:
        refuse_same_names(settings(), here, there)
    assert "--source-id and --target-id" in caught.value.hint
    refuse_same_names(settings("first", "second"), here, there)
    refuse_same_names(settings(), here, topology("other", b="h:1"))
    refuse_same_names(settings(), here, topology("c", d="h:1"))


@pytest.mark.parametrize(
    ("source", "target", "known", "expected"),
    [
        (None, None, {}, Identity("east", "west")),
        ("first", None, {}, Identity("first", "west")),
        ("first", "second", {}, Identity("first", "second")),
        ("first", None, {"source_id": "first", "target_id": "west"}, Identity("first", "west")),
    ],
)
def test_ids_are_those_of_the_settings_or_the_names(
    source: str | None, target: str | None, known: Mapping[str, str], expected: Identity
) -> None:
    """And those of the earlier run."""
    assert identify(settings(source, target), topology("east"), topology("west"), known) == expected


def test_equal_names_are_told_apart_by_their_name_servers() -> None:
    """With a warning, since name servers move."""
    with capture_logs() as logs:
        made = identify(settings(), topology("DefaultCluster"), topology("DefaultCluster"), {})
    assert made == Identity("DefaultCluster@s:1", "DefaultCluster@t:1")
    (warning,) = logs
    assert "source.id and target.id" in warning["event"]


@pytest.mark.parametrize(("source", "target"), [("same", "same"), ("west", None), (None, "east")])
def test_equal_ids_never_pass_unseen(source: str | None, target: str | None) -> None:
    """Set so they are refused; one that equals the other's name is told apart from it."""
    try:
        made = identify(settings(source, target), topology("east"), topology("west"), {})
    except StartupError as error:
        assert "different ids" in error.hint  # noqa: PT017 - one of the cases is refused
        assert source == target
        return
    assert made.source != made.target


@pytest.mark.parametrize("field", ["source_id", "target_id"])
def test_other_ids_than_those_of_the_store_are_refused(field: str) -> None:
    """Names the field, both ids and both ways out."""
    known = {"source_id": "east", "target_id": "west", field: "elsewhere"}
    with pytest.raises(StartupError, match=f"{field} 'elsewhere', this is") as caught:
        identify(settings(), topology("east"), topology("west"), known)
    assert field.replace("_", ".") in caught.value.hint
    assert "store_path" in caught.value.hint


def test_a_store_is_of_one_worker_group() -> None:
    """What another group knows would be published as this one's."""
    ids = {"source_id": "east", "target_id": "west"}
    assert is_of_group(settings(), {})
    assert is_of_group(settings(), ids | {"group": "east-west"})
    assert not is_of_group(settings(worker_group="b"), ids | {"group": "east-west"})
    assert not is_of_group(settings(), ids | {"group": "a"})
    refuse_other_group("a", {"group": "a"})
    refuse_other_group("a", {})
    with pytest.raises(StartupError, match="worker_group 'a', this is 'b'") as caught:
        refuse_other_group("b", {"group": "a"})
    assert "set worker_group to 'a'" in caught.value.hint
