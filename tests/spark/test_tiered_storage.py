"""History that the source has in tiered storage alone: a backfill reads it there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replicator.client.endpoint import Endpoint
from replicator.sandbox import ClusterSpec
from tests.spark.waiting import settled
from tests.support.compatibility_record import tried
from tests.support.narrow import oldest as oldest_offset
from tests.support.narrow import retention
from tests.support.scene import SceneOf
from tests.support.stores import TIERED
from tests.support.worker import until

pytestmark = pytest.mark.timeout(300)

SPEC = ClusterSpec(name="tiered", version="5.5.0", properties=TIERED)
COUNT = 8000


async def test_all_of_it_is_copied(command: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Each message once, from the first one on, whose commit log is deleted."""
    async with scene(source=SPEC, mistreated=(SPEC,), queues=1) as here:
        tried(here.source.spec.version, here.target.spec.version)
        await here.produce(COUNT, size=400)
        (broker,) = here.source.brokers

        def moved() -> bool:
            """Whether all that was produced is in the second store, below the broker's working directory."""
            queues = broker.home.glob(f"*_tiered/{broker.name}/{here.topic}/0/CONSUME_QUEUE/*")
            return sum(path.stat().st_size for path in queues) >= COUNT * 20

        await until(moved, seconds=90, what="tiered storage has it all")
        oldest = min((broker.home / "store" / "commitlog").iterdir())

        async def gone(_: Endpoint) -> bool:
            return not oldest.exists()

        await retention(here.source, gone)
        assert await oldest_offset(here.source, here.topic) == 0
        both = ("--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic)
        store = ("--store-path", tmp_path / "store", "--session-timeout", "3", "--settle-timeout", "0.2")
        ended = await command("backfill", *both, *store, "--output", "json")
        assert ended.exit_code == 0, (ended.output, ended.exception)
        told = json.loads(ended.stdout)
        assert (told["complete"], told["copied"]) == (True, COUNT)
        assert [queue["gaps"] for queue in told["queues"]] == [0]
        await settled(here.target, here.topic, COUNT)
        await here.assert_clean(COUNT)
