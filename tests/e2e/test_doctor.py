"""`replicator doctor` on real clusters: no error of healthy ones, and each planted fault is named."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_missing_rights import guarded
from tests.support.clusters import ClusterPool
from tests.support.group import EAST, WEST
from tests.support.printed import check_printed
from tests.support.scene import SceneOf
from tests.support.traffic import configured, create_topic, produce
from tests.support.worker import signing

pytestmark = pytest.mark.timeout(300)


async def doctor(*flags: str, environment: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """Its exit code, and what it found."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "replicator", "doctor", "-o", "json", *flags),
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    printed, _ = await process.communicate()
    check_printed(("doctor", "-o", "json"), printed)
    return process.returncode or 0, json.loads(printed)


def told(found: dict[str, Any], level: str) -> dict[tuple[str, str], str]:
    """The messages of one level, by check and subject, one a line."""
    messages: dict[tuple[str, str], str] = {}
    for finding in found["findings"]:
        if finding["level"] == level:
            key = finding["check"], finding["subject"]
            messages[key] = messages.get(key, "") + finding["message"] + "\n"
    return messages


async def test_healthy_clusters(scene: SceneOf, tmp_path: Path) -> None:
    """No error, before a start and while a worker runs; the table says the same, line by line."""
    async with scene(queues=2) as route:
        await route.produce(10)
        flags = ("--source", route.source.namesrv, "--target", route.target.namesrv, "--topics", route.topic)
        code, found = await doctor(*flags, "--store-path", str(tmp_path / "store"))
        assert (code, found["errors"]) == (0, 0), found
        fine = told(found, "ok")
        assert fine["topics", "selection"] == "1 topics with 2 queues; 1 to create or enlarge\n"
        assert "can be reached" in fine["target broker", "west-a"]
        assert ("this machine", "worker_group_secret_file") in told(found, "warning")
        assert not (tmp_path / "store").exists()
        async with route.worker("--worker-group", route.topic, "--worker-id", "w7") as worker:
            await worker.caught_up(route.topic, 10)
            code, found = await doctor(*flags, "--worker-group", route.topic)
            assert code == 0
            assert "workers were heard last: w7" in told(found, "ok")["group", route.topic]


async def test_planted_faults(scene: SceneOf, tmp_path: Path) -> None:
    """Each is named with the way out, all in one run."""
    async with scene(source=EAST, target=WEST, mistreated=(EAST, WEST), queues=2) as route:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            dead = f"127.0.0.1:{taken.getsockname()[1]}"
        await create_topic(route.target, f"{route.topic}-used", queues=1)
        await produce(route.target, f"{route.topic}-used", 5)
        await create_topic(route.source, f"{route.topic}-used", queues=1)
        blocked = tmp_path / "file"
        blocked.write_text("in the way")
        flags = ["--source", f"{route.source.namesrv},{dead}", "--target", route.target.namesrv]
        flags += ["--topics", f"{route.topic}.*", "--sql", "a > 1", "--store-path", str(blocked / "store")]
        async with (
            configured(route.source, enablePropertyFilter="false"),
            configured(route.target, maxMessageSize=1000, brokerPermission=4),
        ):
            code, found = await doctor(*flags)
        assert code == 5
        errors, warnings = told(found, "error"), told(found, "warning")
        assert "cannot be written" in errors["this machine", "store_path"]
        assert dead in errors["source name server", dead]
        assert "it takes no messages" in errors["target broker", "west-a"]
        assert "does not filter by SQL92" in errors["source broker", "east-a"]
        assert "it takes messages of 1,000 bytes" in warnings["target broker", "west-a"]
        assert all(finding["advice"] for finding in found["findings"] if finding["level"] != "ok")
        code, found = await doctor(*flags[:4], "--topics", f"{route.topic}.*")
        assert "others have written to it" in told(found, "warning")["target topic", f"{route.topic}-used"]


def _with(environment: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **environment}


async def test_rights_and_topics(clusters: ClusterPool) -> None:
    """An account without a right, a topic that cannot be copied, and a secret that is wrong."""
    async with guarded(clusters) as here:
        environment = {
            **signing("SOURCE", here.reader.name, here.reader.secret.reveal()),
            **signing("TARGET", here.writer.name, here.writer.secret.reveal()),
        }
        flags = ("--source", here.source.namesrv, "--target", here.target.namesrv)
        code, found = await doctor(*flags, "--topics", here.topic, environment=_with(environment))
        assert code == 0, found
        await create_topic(here.source.cluster, f"other-{here.topic}", queues=1)
        topics = ("--topics", f"(other-)?{here.topic}")
        code, found = await doctor(*flags, *topics, environment=_with(environment))
        assert code == 5
        assert (
            f"topic other-{here.topic}: the source's account may not read it"
            in told(found, "error")["rights", "topics"]
        )
        wrong = environment | {"REPLICATOR_SOURCE__SECRET_KEY": "wrong secret"}
        code, found = await doctor(*flags, environment=_with(wrong))
        assert code == 5
        assert "wrong secret" not in json.dumps(found)
