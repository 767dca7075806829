"""A worker without its source finds its group by what the mirror says of the clusters."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.client.topics import TopicConfig
from replicator.errors import Unreachable
from replicator.group import known_group
from replicator.group.known_group import UnreadMirror, clusters_record, find_group, match
from replicator.group.wire import Author, write_records
from replicator.routing.options import Identity
from replicator.settings import Settings
from replicator.state.record import Kind, Record, Version
from tests.group.log_brokers import LogBroker, LogCluster, Trouble, patch_client

IDS = Identity("east", "west")


def settings(*sources: str, target_id: str | None = None, source_id: str | None = None, **more: Any) -> Settings:
    """Those of a worker that knows the source by these name servers."""
    source = {"namesrv": list(sources), "id": source_id}
    return Settings.model_validate({"source": source, "target": {"namesrv": ["t:1"], "id": target_id}, **more})


GROUPS = [
    clusters_record(None, settings("a:1"), "east-west", IDS),
    clusters_record(None, settings("a:1"), "own", IDS),
    clusters_record(None, settings("n:1"), "north-west", Identity("north", "west")),
    clusters_record(None, settings("l:1"), "a-loop", Identity("loop@l:1", "loop@t:1")),
]


@pytest.mark.parametrize(
    ("given", "cluster", "found"),
    [
        (settings("n:1"), "west", ["north-west"]),
        (settings("m:1", "n:1"), "west", ["north-west"]),
        (settings("a:1"), "west", ["east-west", "own"]),
        (settings("a:1", worker_group="own"), "west", ["own"]),
        (settings("elsewhere:1", source_id="north"), "west", ["north-west"]),
        (settings("elsewhere:1"), "west", []),
        (settings("n:1"), "another", []),
        (settings("n:1", target_id="west"), "another name", ["north-west"]),
        (settings("l:1"), "loop", ["a-loop"]),
    ],
)
def test_the_group_that_is_meant(given: Settings, cluster: str, found: list[str]) -> None:
    """By its name, else by the id of the source, else by a name server that both know; never at another target."""
    assert sorted(clusters["group"] for clusters in match(GROUPS, given, cluster)) == found


def test_name_servers_of_all_workers_are_known() -> None:
    """One worker may know the source by other addresses; those of another source are forgotten."""
    first = clusters_record(None, settings("a:1"), "g", IDS)
    both = clusters_record(first, settings("b:1"), "g", IDS)
    assert both["source"] == {"id": "east", "namesrv": ["a:1", "b:1"]}
    assert clusters_record(both, settings("c:1"), "g", Identity("c", "west"))["source"]["namesrv"] == ["c:1"]


async def found(trouble: Trouble) -> known_group.KnownGroup | None:
    """What a worker without its source finds; the record of the group is the last of 40 messages of one broker."""
    given = settings("a:1")
    record = Record(Kind.CLUSTERS, "", Version(1, "w0"), clusters_record(None, given, "east-west", IDS))
    (body,) = write_records(Author("east-west", "w0", "i"), itertools.count(1), [record])
    cluster: Any = LogCluster(a=LogBroker(*[b"{}"] * 39, body, trouble=trouble))
    topic = TopicConfig(name=given.control_topic, read_queues=1, write_queues=1)
    target: Any = SimpleNamespace(topics={"a": {topic.name: topic}}, cluster_name="west")
    return await find_group(given, target, lambda: cast("Any", cluster), recent=60.0)


async def test_a_broker_that_drops_the_connection_halfway_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is the only one, what it has not shown yet is not unknown to the target."""
    patch_client(monkeypatch)
    lost = iter([Unreachable("a", "reset")] * 3)
    known = await found(lambda offset: next(lost, None) if offset == 32 else None)
    assert known is not None
    assert (known.name, known.identity) == ("east-west", IDS)


async def test_a_mirror_that_cannot_be_read_is_not_taken_for_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_client(monkeypatch)
    monkeypatch.setattr(known_group, "_READING", 0.2)
    with pytest.raises(UnreadMirror, match=r"not within 0\.2 s"):
        await found(lambda _: Unreachable("a", "reset"))
