"""What Spark's tasks send goes over the VIP port, as what a route sends."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from replicator.sandbox import ClusterSpec
from tests.e2e.test_vip_channel import PULL, SEND_BATCH
from tests.spark.test_archive import export, restore, told
from tests.spark.test_datasource import writing
from tests.spark.waiting import settled
from tests.support.frames import Frame
from tests.support.proxy import BrokerProxies
from tests.support.scene import SceneOf

PROXIED = ClusterSpec(name="proxied", version="5.3.3", broker_ip="127.0.0.2")
#: Requests that send: a message (in two forms), a batch.
SENDS = {10, 310, SEND_BATCH}


async def test_what_crosses_which_port(command: Any, spark: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Seen on the sockets: of `backfill`, of `import`, of rows that are written."""
    seen: Counter[tuple[str, int]] = Counter()

    def on_frame(port: str, frame: Frame) -> None:
        if not frame.answer:
            seen[port, frame.code] += 1

    def ports() -> tuple[bool, set[str]]:
        """Whether batches were sent, and over which ports anything was, since the last time."""
        found = seen["vip", SEND_BATCH] > 0, {port for port, code in seen if code in SENDS}
        assert not [code for port, code in seen if (port, code) == ("vip", PULL)]
        seen.clear()
        return found

    over_vip = (True, {"vip"})
    async with scene(target=PROXIED, queues=2) as here:
        await here.produce(2000)
        await settled(here.source, here.topic, 2000)
        both = ("--source", here.source.namesrv, "--target", here.target.namesrv, "--topics", here.topic)
        store = ("--store-path", tmp_path / "store", "--session-timeout", "3", "--output", "json")
        (broker,) = here.target.brokers
        async with BrokerProxies(("127.0.0.2", broker.port), on_frame=on_frame):
            assert told(await command("backfill", *both, *store))["copied"] == 2000
            assert ports() == over_vip
            assert told(await export(command, here, tmp_path / "archive"))["messages"] == 2000
            archive, again = tmp_path / "archive", ("--rename", "{topic}-again")
            assert told(await restore(command, here, archive, tmp_path / "store", *again))["copied"] == 2000
            assert ports() == over_vip
            named = "body STRING, brokerName STRING, queueId INT"
            for place, schema in (((), "body STRING"), ((broker.name, 1), named)):
                rows = [(f"n{number}", *place) for number in range(500)]

                def write(rows: Any = rows, schema: str = schema) -> None:
                    writing(spark.createDataFrame(rows, schema), here, topic=here.topic)

                await asyncio.to_thread(write)
                assert ports() == over_vip
            await settled(here.target, here.topic, 3000)
