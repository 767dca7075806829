"""What `replicator verify` finds, damage by damage, and that it finds nothing where nothing is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from typer.testing import Result

from replicator.client.send import send_single
from replicator.protocol.batch import header_fields
from replicator.protocol.properties import encode
from replicator.ranges import comparer, pairing
from replicator.ranges.access import Access
from replicator.ranges.comparer import Compared, CompareJob, compare
from replicator.ranges.copier import copy_range
from replicator.ranges.copy_job import CopyJob, Range
from replicator.ranges.findings import KINDS
from replicator.routing.options import Identity, RouteOptions
from replicator.routing.queue_map import Queue
from tests.spark.waiting import settled
from tests.support.scene import Scene, SceneOf
from tests.support.traffic import connected, create_topic, produce, raw_topic, send

COUNT = 40


def options(**more: Any) -> RouteOptions:
    return RouteOptions(identity=Identity("east", "west"), settle_timeout=0.0, **more)


async def compared(scene: Scene, *, queue: int = 0, end: int | None = None, **more: Any) -> Compared:
    chosen = more.pop("options", options())
    job = CompareJob(
        source=Access(namesrv=(scene.source.namesrv,)),
        target=Access(namesrv=(scene.target.namesrv,)),
        options=chosen,
        **more,
    )
    return await compare(job, part_of(scene, queue, COUNT if end is None else end))


def copying(scene: Scene, chosen: RouteOptions) -> CopyJob:
    return CopyJob(
        source=Access(namesrv=(scene.source.namesrv,)),
        target=Access(namesrv=(scene.target.namesrv,)),
        options=chosen,
        memory_bytes=8 * 1024**2,
    )


def part_of(scene: Scene, queue: int, end: int) -> Range:
    source, target = scene.source.brokers[0].name, scene.target.brokers[0].name
    return Range(scene.topic, Queue(source, queue), scene.topic, Queue(target, queue), 0, end)


Copy = tuple[int, bytes, dict[str, str]]


class Forger:
    """Writes copies by hand, so that any of them can be wrong."""

    def __init__(self, scene: Scene, stored: Mapping[int, int]) -> None:
        self._scene = scene
        self.stored = stored

    def copy(self, offset: int, *, queue: int = 0, stored: int | None = None, **changed: str) -> Copy:
        """A right copy of what `produce` stored, unless told otherwise."""
        scene = self._scene
        told = {"KEYS": f"k{offset}", "TAGS": f"tag{offset % 3}", "UNIQ_KEY": f"U{offset:030d}", "n": str(offset)}
        place = f"east/{scene.source.brokers[0].name}/{queue}/{offset}/{stored or self.stored.get(offset, 1)}"
        whole = {"__RPL_ORIGIN": "east", "__RPL_SOURCE": place, **told, **changed}
        return offset, f"{offset:012d}".encode().ljust(100, b"\xfe"), whole

    async def write(self, copies: list[Copy], *, flag: int = 0, sys_flag: int = 0) -> None:
        async with connected(self._scene.target) as client:
            await send(
                client,
                self._scene.target.brokers[0].name,
                self._scene.topic,
                0,
                [(body, told) for _, body, told in copies],
                flag=flag,
                sys_flag=sys_flag,
            )

    async def write_singly(self, copies: list[Copy]) -> None:
        fields = header_fields(
            group="g", topic=self._scene.topic, queue_id=0, sys_flag=0, born_timestamp=1, reconsume_times=0
        )
        async with connected(self._scene.target) as client:
            broker = client.writer(self._scene.target.brokers[0].name)
            for _, body, told in copies:
                await send_single(broker, {**fields, "i": encode(told).decode(), "m": "false"}, body)


async def forger(scene: Scene) -> Forger:
    """After 40 messages in one source queue, whose target is empty."""
    await scene.produce(COUNT)
    await settled(scene.source, scene.topic, COUNT)
    await create_topic(scene.target, scene.topic, queues=1)
    ((_, messages),) = (await raw_topic(scene.source, scene.topic)).items()
    return Forger(scene, {m.queue_offset: m.store_timestamp for m in messages})


def found(outcome: Compared) -> set[tuple[str, int | None, int | None]]:
    return {(each.kind, each.source, each.target) for each in outcome.findings}


async def test_what_the_copy_makes_is_clean(scene: SceneOf) -> None:
    """Copied by the real thing; what is not copied yet is behind, or missing where all should be there."""
    async with scene(queues=1) as here:
        await here.produce(9000)
        await settled(here.source, here.topic, 9000)
        await create_topic(here.target, here.topic, queues=1)
        await copy_range(copying(here, options()), part_of(here, 0, 8990))
        await settled(here.target, here.topic, 8990)
        outcome = await compared(here, end=9000)
        assert (outcome.counts, outcome.error) == ({}, "")
        assert (outcome.selected, outcome.copies, outcome.behind) == (8990, 8990, 10)
        assert outcome.source_digest == outcome.target_digest
        outcome = await compared(here, end=9000, complete=True)
        assert outcome.counts == {"missing": 10}


async def test_every_kind_of_damage_is_found_where_it_is(run: Any, scene: SceneOf, tmp_path: Path) -> None:
    """All kinds in one queue, each with its coordinates; all else is right. The command tells all of them."""
    async with scene(queues=1) as here:
        forged = await forger(here)
        copy, write = forged.copy, forged.write
        await write([copy(0), copy(1)])  # at target offsets 0 and 1; 2 is missing
        await write([copy(3), copy(4), copy(3)])  # 3 again, at 4
        await write([copy(6), copy(5)])  # 5 behind 6, at 6
        await write([(7, b"other".ljust(100, b"\xfe"), copy(7)[2])])  # at 7
        await write([copy(8)], flag=9)  # at 8
        await write([copy(9, n="wrong", more="1")])  # at 9
        await write([copy(10)], sys_flag=1)  # at 10
        await write([copy(11, stored=77)])  # at 11
        await write([copy(12, __RPL_ORIGIN="elsewhere")])  # at 12
        await write([copy(3, queue=7)])  # at 13, from another queue
        await write([(0, b"foreign", {"UNIQ_KEY": "X"})])  # at 14
        await write([copy(offset) for offset in range(13, COUNT)])
        await write([copy(COUNT + 5)])  # the source never had it
        await settled(here.target, here.topic, 16 + COUNT - 13)
        outcome = await compared(here)
        assert found(outcome) == {
            ("missing", 2, None),
            ("duplicate", 3, 4),
            ("reordered", 5, 6),
            ("body", 7, 7),
            ("flag", 8, 8),
            ("properties", 9, 9),
            ("header", 10, 10),
            ("stale", 11, 11),
            ("origin", 12, 12),
            ("misplaced", None, 13),
            ("extra", None, 14),
            ("unknown", COUNT + 5, 15 + COUNT - 13),
        }
        assert outcome.counts == dict.fromkeys(KINDS, 1)
        for each in outcome.findings:
            asked = None if each.source is None or each.source >= COUNT else each.source
            unique = {"extra": "X", "misplaced": f"U{3:030d}", "unknown": f"U{COUNT + 5:030d}"}
            assert each.uniq_key == (unique[each.kind] if asked is None else f"U{asked:030d}")
            assert each.keys == ("" if each.kind == "extra" else f"k{int(each.uniq_key[1:])}")
            assert each.stored is not None
            assert asked is None or each.stored == forged.stored[asked]
        (changed,) = [each.detail for each in outcome.findings if each.kind == "properties"]
        assert changed == "more, n"
        assert "extra" not in (await compared(here, extra=False)).counts

        ended = await run(here, "--output", "json", "--report", str(tmp_path / "report.md"))
        assert ended.exit_code == 5, (ended.output, ended.exception)
        told = json.loads(ended.stdout)
        (queue,) = told["queues"]
        assert (told["clean"], told["counts"]) == (False, outcome.counts)
        assert queue["findings"] == to_builtins(outcome.findings)
        report = (tmp_path / "report.md").read_text()
        source, target = (f"{here.topic}/{side.brokers[0].name}/0" for side in (here.source, here.target))
        for each in outcome.findings:
            places = {f" source {source}/": each.source, f" target {target}/": each.target}
            said = "".join(f"{place}{offset}" for place, offset in places.items() if offset is not None)
            named = f" UNIQ_KEY={each.uniq_key}{f' KEYS={each.keys}' if each.keys else ''} stored=20"
            assert f"- {each.kind}:{said}{f' ({each.detail})' if each.detail else ''}{named}" in report
            assert f"- {each.kind}: 1\n" in report


async def test_order_alone_is_seen_too(scene: SceneOf) -> None:
    """Counts are equal then. As few are named as can be: of two neighbours one, of two that are apart both."""
    async with scene(queues=1) as here:
        forged = await forger(here)
        order = [*range(20), 21, 20, *range(22, COUNT)]
        order[2], order[35] = order[35], order[2]
        await forged.write([forged.copy(offset) for offset in order])
        await settled(here.target, here.topic, COUNT)
        outcome = await compared(here)
        assert outcome.selected == outcome.copies
        assert found(outcome) == {("reordered", 20, 21), ("reordered", 35, 2), ("reordered", 2, 35)}


async def test_what_a_copy_says_of_itself_proves_nothing_of_others(scene: SceneOf) -> None:
    """One names an offset far ahead, one a message that was stored at another time: all others are right."""
    async with scene(queues=1) as here:
        forged = await forger(here)
        copies = [forged.copy(offset) for offset in range(30)]
        for at, place in ((10, 35), (20, 999_999)):
            copies[at] = (*copies[at][:2], forged.copy(place, stored=77)[2])
        await forged.write(copies)
        await settled(here.target, here.topic, 30)
        outcome = await compared(here)
        missing = {("missing", 10, None), ("missing", 20, None)}
        assert found(outcome) == missing | {("unknown", 999_999, 20)} | {
            (kind, 35, 10) for kind in ("stale", "body")
        }
        assert (outcome.end, outcome.behind) == (30, COUNT - 30)


async def test_however_much_differs_all_is_counted(scene: SceneOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a hundred runs, in one whose copies lie in a hundred places, and of a queue that is there twice."""
    for module in (comparer, pairing):
        monkeypatch.setattr(module, "RUN", 4)
    async with scene(queues=1) as here:
        await here.produce(400)
        await settled(here.source, here.topic, 400)
        await create_topic(here.target, here.topic, queues=1)
        ((_, messages),) = (await raw_topic(here.source, here.topic)).items()
        forged = Forger(here, {m.queue_offset: m.store_timestamp for m in messages})
        kept = [forged.copy(offset) for offset in range(400) if offset % 4 != 2]
        await forged.write(kept)
        await forged.write([forged.copy(399), forged.copy(7)] * 100)
        await settled(here.target, here.topic, 500)
        outcome = await compared(here, end=400)
        assert outcome.counts == {"missing": 100, "duplicate": 200}
        assert len(outcome.findings) == 2 * 20
        await forged.write(kept)
        await forged.write([forged.copy(2)])
        await settled(here.target, here.topic, 801)
        outcome = await compared(here, end=400)
        assert outcome.counts == {"missing": 99, "duplicate": 500, "reordered": 1}


@pytest.mark.parametrize("singly", [False, True])
async def test_properties_in_another_order_are_the_same(scene: SceneOf, singly: bool) -> None:
    """Brokers put those of a message that is sent singly into the order of a hash table, ours among them."""
    async with scene(queues=1) as here:
        forged = await forger(here)
        copies = [_turned(forged.copy(offset)) for offset in range(COUNT)]
        await (forged.write_singly(copies) if singly else forged.write(copies))
        await settled(here.target, here.topic, COUNT)
        ((_, stored),) = (await raw_topic(here.target, here.topic)).items()
        assert {copy.properties.startswith(b"__RPL_ORIGIN") for copy in stored} == {not singly}
        outcome = await compared(here)
        assert (outcome.counts, outcome.error, outcome.copies) == ({}, "", COUNT)
        assert outcome.source_digest == outcome.target_digest


def _turned(copy: Copy) -> Copy:
    """Its own properties from the last to the first."""
    offset, body, told = copy
    origin, source, *own = told.items()
    return offset, body, dict([origin, source, *reversed(own)])


async def test_what_a_route_leaves_out_is_not_missing(scene: SceneOf) -> None:
    """Other tags, and whatever lies before a route that began late."""
    async with scene(queues=1) as here:
        forged = await forger(here)
        await forged.write([forged.copy(offset) for offset in range(4, COUNT) if offset % 3 == 1])
        await settled(here.target, here.topic, 12)
        tagged = options(tags=frozenset({b"tag1"}))
        assert found(await compared(here, options=tagged)) == {("missing", 1, None)}
        outcome = await compared(here, options=tagged, from_first_copy=True)
        assert (outcome.counts, outcome.error) == ({}, "")
        assert (await compared(here)).counts["missing"] > 20


@pytest.fixture
def run(command: Any) -> Any:
    """`await run(scene, …)`: verifies it."""

    async def run(scene: Scene, *arguments: str) -> Result:
        given = ["--source", scene.source.namesrv, "--target", scene.target.namesrv, "--topics", scene.topic]
        found: Result = await command("verify", *given, *arguments)
        return found

    return run


async def test_the_command_beside_a_running_route(run: Any, scene: SceneOf, tmp_path: Path) -> None:
    """Nothing wrong while it runs; one message that is not its own is told, in JSON and in the report."""
    async with scene() as here, here.worker() as worker, here.producer(per_second=1000):
        await worker.caught_up(here.topic, 2000)
        ended = await run(here, "--output", "json")
        assert ended.exit_code == 0, (ended.output, ended.exception)
        told = json.loads(ended.stdout)
        assert told["clean"]
        assert len(told["queues"]) == 4
        assert all(queue["selected"] == queue["copies"] > 400 for queue in told["queues"])
        async with connected(here.target) as client:
            broker = here.target.brokers[0].name
            stored = await send(client, broker, here.topic, 2, [(b"foreign", {"UNIQ_KEY": "X"})])
        report = tmp_path / "report.md"
        ended = await run(here, "--report", str(report))
        assert ended.exit_code == 5, (ended.output, ended.exception)
        assert f"- extra: target {here.topic}/{broker}/2/{stored.offset}" in report.read_text()
        assert re.search(r"source and target differ\s*$", ended.stdout)
        assert (await run(here, "--ignore-extra")).exit_code == 0


async def test_a_window_of_offsets_or_times(run: Any, scene: SceneOf) -> None:
    """What differs outside is not told, what lies inside is compared to the last message; an odd one is refused."""
    async with scene(queues=1) as here:
        forged = await forger(here)
        moment = datetime.now(UTC)
        await here.produce(10, start=COUNT)
        await settled(here.source, here.topic, COUNT + 10)
        await forged.write([forged.copy(offset) for offset in (*range(5, 20), *range(21, COUNT))])
        await settled(here.target, here.topic, 34)

        async def told(*window: str) -> tuple[Any, Any]:
            ended = await run(here, "--output", "json", *window)
            outcome = json.loads(ended.stdout)
            (queue,) = outcome["queues"]
            return outcome["counts"], (queue["start"], queue["end"], queue["behind"], queue["selected"])

        assert await told() == ({"missing": 6}, (0, COUNT, 10, COUNT))
        assert await told("--from", "5", "--to", "20") == ({}, (5, 20, 0, 15))
        assert await told("--from", "5", "--to", "21") == ({"missing": 1}, (5, 21, 0, 16))
        assert await told("--from", "5", "--to", "21", "--complete") == ({"missing": 1}, (5, 21, 0, 16))
        assert await told("--from", "21") == ({}, (21, COUNT, 10, COUNT - 21))
        assert await told("--to", moment.isoformat()) == ({"missing": 6}, (0, COUNT, 0, COUNT))
        assert await told("--from", moment.isoformat(), "--complete") == (
            {"missing": 10},
            (COUNT, COUNT + 10, 0, 10),
        )
        refused = await run(here, "--from", "yesterday")
        assert refused.exit_code != 0
        assert "--from = 'yesterday' is neither a queue offset nor a time" in str(refused.exception)
        refused = await run(here, "--from", "3", "--to", "3")
        assert refused.exit_code != 0
        assert "nothing lies between --from and --to" in str(refused.exception)


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_rate_holds_for_each_side(run: Any, scene: SceneOf, side: str) -> None:
    """It is that of all tasks: two have half of it each, and a thousand messages."""
    async with scene(queues=2) as here:
        await create_topic(here.target, here.topic, queues=2)
        cluster = here.source if side == "source" else here.target
        await produce(cluster, here.topic, 2000)
        await settled(cluster, here.topic, 2000)
        ended = await run(here, "--complete", "--ignore-extra", "--output", "json", "--rate-messages", "1000")
        told = json.loads(ended.stdout)
        assert told["counts"] == ({"missing": 2000} if side == "source" else {})
        assert all(queue["seconds"] > 1.8 for queue in told["queues"])
