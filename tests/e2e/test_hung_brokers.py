"""A broker that takes connections and answers nothing: who asks about a failover is told so, and soon."""

from __future__ import annotations

import time

import pytest

from replicator.sandbox import ClusterSpec
from tests.support import scene as usual
from tests.support.readiness import asked
from tests.support.scene import SceneOf
from tests.support.worker import until

#: Seconds for an answer: without a first question to all brokers it takes 30 and more.
_SOON = 20.0


@pytest.mark.parametrize("side", ["source", "target"])
async def test_readiness_and_a_dry_run_name_it(scene: SceneOf, side: str) -> None:
    """Each in seconds; once it goes on all is as before."""
    hung = ClusterSpec(name="hung", version="5.3.3")
    source, target = (hung, usual.TARGET) if side == "source" else (usual.SOURCE, hung)
    async with scene(source=source, target=target, mistreated=(hung,)) as route:
        (broker,) = (route.source if side == "source" else route.target).brokers
        await route.produce(100)
        async with route.worker() as worker:
            await worker.caught_up(route.topic, 100)
            broker.pause()
            try:
                for method, what, how in (("POST", "failover", {"dry_run": True}), ("GET", "readiness", None)):
                    begun = time.monotonic()
                    found = await asked(worker, method, what, how)
                    assert time.monotonic() - begun < _SOON
                    assert f"{broker.address} cannot be reached (" in str(found), found
            finally:
                broker.resume()
            await until(lambda: worker.ask("GET", "/connectors/route/readiness")[1]["ready"])
        await route.assert_clean(100)
