"""Namespaces are parts of names: topics, groups and retry topics of one come along as all others do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.move import move


@pytest.mark.parametrize("version", ["5.1.4", "5.3.3"])
async def test_topics_and_groups_of_a_namespace(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str], version: str
) -> None:
    """As clients with `setNamespace` name them."""
    source, target = await clusters.pair(
        ClusterSpec(name="east", version=version), ClusterSpec(name="west", version="5.5.0")
    )
    await move(source, target, tmp_path, topic=f"MQ_INST_1%{topic_name('t')}", group=f"MQ_INST_1%{topic_name('g')}")
