"""A worker without its source finds its group by what the mirror says of the clusters."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.group.known_group import clusters_record, match
from replicator.routing.options import Identity
from replicator.settings import Settings

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
