"""Every version as the source and the target of every other: one scene with what a move needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.sandbox import ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.compatibility import pairs
from tests.support.move import move

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(("source_version", "target_version"), pairs())
async def test_a_pair(
    clusters: ClusterPool,
    tmp_path: Path,
    topic_name: Callable[[str], str],
    source_version: str,
    target_version: str,
) -> None:
    """Plain, batch, delayed, timer and transactional messages; the topic, a group, its offsets; and the switch."""
    east, west = ClusterSpec(name="east", version=source_version), ClusterSpec(name="west", version=target_version)
    source, target = await clusters.pair(east, west)
    await move(source, target, tmp_path, topic=topic_name("t"), group=topic_name("g"))
