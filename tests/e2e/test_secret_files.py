"""An account's secret changes at the target, then in the file of the worker, which is not restarted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from acl_sync.model import Secret
from tests.support.clusters import ClusterPool
from tests.support.least_rights import guarded
from tests.support.traffic import judge, produce
from tests.support.worker import Worker, signing, until

pytestmark = pytest.mark.side_by_side("guarded")


async def test_a_new_secret(clusters: ClusterPool, tmp_path: Path) -> None:
    """Copying waits while the file has the old one, and goes on with the new one; so does REST with a new token."""
    async with guarded(clusters) as here:
        source, target = here.source.cluster, here.target.cluster
        secret, token = tmp_path / "secret", tmp_path / "token"
        for file, content in ((secret, here.writer.secret.reveal()), (token, "old-token")):
            file.touch(mode=0o600)
            file.write_text(content)
        environment = {
            **signing("SOURCE", here.reader.name, here.reader.secret.reveal()),
            "REPLICATOR_TARGET__ACCESS_KEY": here.writer.name,
            "REPLICATOR_TARGET__SECRET_KEY_FILE": str(secret),
            "REPLICATOR_REST__TOKEN_FILE": str(token),
        }
        flags = ("--topics", here.topic, "--sync", "none")
        async with Worker(source, target, tmp_path / "worker", *flags, environment=environment) as worker:

            async def copies(count: int) -> bool:
                verdict = await judge(source, target, here.topic)
                return verdict.clean and verdict.copies == count

            def allowed(bearer: str) -> bool:
                return worker.ask("GET", "/connectors/list", token=bearer)[0] == 200

            await until(lambda: copies(100), what="the first messages")
            await here.target.put(dataclasses.replace(here.writer, secret=Secret("another secret of who writes")))
            await produce(source, here.topic, 100, start=100)
            await until(lambda: "refused" in worker.log, what="the target refuses the old secret")
            assert not await copies(200)
            secret.write_text("another secret of who writes\n")
            token.write_text("new-token")
            await until(lambda: copies(200), what="the rest, with the new secret")
            await until(lambda: allowed("new-token"), what="the new token")
            assert not allowed("old-token")
            used = [event["of"] for event in worker.events if event["event"].startswith("changed files are used")]
            assert sorted(used) == ["rest tokens", "target"]
            for hidden in ("another secret of who writes", "new-token"):
                assert hidden not in worker.log
            assert await worker.drain() == 0
