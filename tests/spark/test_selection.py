"""What settings make of messages is the same by `replicator backfill` as by the live route, to the byte."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from replicator.protocol.batch import KEPT_SYS_FLAGS
from replicator.sandbox import Cluster
from tests.spark.waiting import settled
from tests.support.narrow import NARROW
from tests.support.scene import SceneOf
from tests.support.traffic import connected, raw_topic, send


async def stored(cluster: Cluster, topic: str, *, born: bool = True) -> dict[Any, list[tuple[object, ...]]]:
    """All that a route decides about each message, queue by queue; `born` timestamps too, where they are exact."""
    return {
        place: [
            (
                m.body,
                m.properties,
                m.flag,
                m.sys_flag & KEPT_SYS_FLAGS,
                m.reconsume_times,
                born and m.born_timestamp,
            )
            for m in messages
        ]
        for place, messages in (await raw_topic(cluster, topic)).items()
    }


async def test_the_same_as_by_the_live_route(command: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Renamed, from a time on, by tags and by an expression, with dead letters, with exact born timestamps."""
    async with scene(target=NARROW, queues=2) as here:
        await here.produce(400)
        await settled(here.source, here.topic, 400)
        last = max(m.store_timestamp for ms in (await raw_topic(here.source, here.topic)).values() for m in ms)
        moment = datetime.fromtimestamp((last + 1) / 1000, UTC)
        broker = here.source.brokers[0].name
        async with connected(here.source) as client:
            for number in range(60):
                more = {"KEYS": f"k{number}", "TAGS": f"tag{number % 3}", "n": str(number), "ü": "ö"}
                size = 100_000 if number in (31, 32) else 100  # of which the target takes none
                await send(
                    client,
                    broker,
                    here.topic,
                    number % 2,
                    [(b"x" * size, more), (b"y", {**more, "own": ""})],
                    born=1_700_000_000_000 + number,
                    flag=number,
                    reconsume_times=number % 4,
                )
        await settled(here.source, here.topic, 520)

        common = ("--start-from", moment.isoformat(), "--on-error", "dead-letter", "--settle-timeout", "0.2")
        selections: dict[str, tuple[tuple[str, ...], int]] = {
            "tags": (("--tags", "tag0,tag1", "--born-timestamp", "exact"), 79),
            "sql": (("--sql", "n >= 20 AND TAGS <> 'tag0'"), 52),
        }
        for name, (selection, count) in selections.items():
            copies: list[Any] = []
            letters: list[Any] = []
            for by in ("live", "spark"):
                renamed, dead = f"{here.topic}-{name}-{by}", f"{here.topic}-{name}-{by}-dead"
                flags = (*common, *selection, "--rename", f"{{topic}}-{name}-{by}", "--dead-letter-topic", dead)
                if by == "live":
                    async with here.worker(*flags, "--worker-group", f"{here.topic}-{name}", at=name) as worker:
                        await worker.caught_up(here.topic, count)
                        assert await worker.drain() == 0
                else:
                    both = (
                        "--source",
                        here.source.namesrv,
                        "--target",
                        here.target.namesrv,
                        "--topics",
                        here.topic,
                    )
                    store = ("--store-path", tmp_path / f"{name}-store", "--session-timeout", "3")
                    ended = await command("backfill", *both, *flags, *store, "--output", "json")
                    assert ended.exit_code == 0, (ended.output, ended.exception)
                    assert json.loads(ended.stdout)["copied"] == count
                await settled(here.target, renamed, count)
                copies.append(await stored(here.target, renamed, born="exact" in selection))
                letters.append(await stored(here.target, dead, born=False))
                letters[-1] = [sorted(queue) for queue in letters[-1].values()]
            assert copies[0] == copies[1]
            assert sum(map(len, copies[0].values())) == count
            (refused,) = letters[0]
            assert len(refused) == (1 if name == "tags" else 2)
            assert letters[0] == letters[1]
