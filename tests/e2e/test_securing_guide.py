"""What docs/SECURING.md says to type, typed: accounts, the group's secret, and REST with tokens and TLS."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import urllib.request
from pathlib import Path

import pytest

from replicator.sandbox import tls
from tests.support.acl_scene import MIDDLE, NEW, between
from tests.support.clusters import ClusterPool
from tests.support.guide import Guide
from tests.support.least_rights import Guarded
from tests.support.terminal import Terminal
from tests.support.traffic import create_topic, produce
from tests.support.worker import signing

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(300)]

PAGE = Path(__file__).parent.parent.parent / "docs" / "SECURING.md"


def accounts(guide: Guide, here: Guarded, directory: Path, names: dict[str, str]) -> None:
    """The doctor, with one secret in the environment and the other in a file."""
    words = shlex.split(guide.take("export "))[1:]
    reader = signing("SOURCE", here.reader.name, here.reader.secret.reveal())
    assert [word.partition("=")[0] for word in words] == [*reader]
    with Terminal(directory, names, reader) as shell:
        checked = shell.type(guide.take("replicator doctor"))
    assert here.writer.secret.reveal() not in checked


def tokens(guide: Guide, shell: Terminal, files: tls.TlsFiles) -> None:
    """A worker that others reach."""
    for name, path in (("rest.crt", files.server_cert), ("rest.key", files.server_key)):
        shutil.copy(path, shell.directory / name)
    for name in ("rest.admin", "rest.read"):
        shell.type(guide.take(f"replicator secret {name}"))
        assert (shell.directory / name).stat().st_mode & 0o777 == 0o600
    shell.begin(guide.take("replicator --source A"))


async def test_securing(clusters: ClusterPool, tmp_path: Path) -> None:
    """With accounts that may do what they must, and no more."""
    guide, files = Guide(PAGE), tls.make(tmp_path / "tls", client_auth=False)
    async with clusters.fresh(MIDDLE) as east, clusters.fresh(NEW) as west, between(east, west) as scene:
        here = Guarded(scene.source, scene.target, scene.name)
        await here.source.put(here.reader)
        await here.target.put(here.writer)
        await create_topic(east, here.topic, queues=2)
        await produce(east, here.topic, 100)
        secret = tmp_path / "rocketmq"
        secret.touch(0o600)
        secret.write_text(here.writer.secret.reveal())
        names = {
            "A": east.namesrv,
            "B": west.namesrv,
            "--target-access-key replicator": f"--target-access-key {here.writer.name}",
            "/run/secrets/rocketmq": str(secret),
            "/etc/ssl/rocketmq-ca.pem": str(files.ca),
            "/etc/rocketmq-replicator/group.secret": str(tmp_path / "group.secret"),
            "0.0.0.0": "127.0.0.2",
        }
        await asyncio.to_thread(accounts, guide, here, tmp_path / "doctor", names)
        with Terminal(tmp_path / "group", names, here.environment) as shell:
            await asyncio.to_thread(shell.type, guide.take("replicator config check"))
            await asyncio.to_thread(shell.type, guide.take("replicator secret /etc"))
            await asyncio.to_thread(shell.begin, guide.take("replicator --source A"))
            await asyncio.to_thread(shell.until, "replicator readiness", "ready to switch")
        with Terminal(tmp_path / "rest", names, here.environment) as shell:
            await asyncio.to_thread(tokens, guide, shell, files)
            url = f"https://127.0.0.2:{shell.port}"
            asking = {
                "REPLICATOR_URL": url,
                "REPLICATOR_REST__TOKEN_FILE": str(shell.directory / "rest.read"),
                "REPLICATOR_REST__TLS__CA_FILE": str(files.ca),
            }
            with Terminal(tmp_path / "asking", names, asking) as user:
                await asyncio.to_thread(user.until, "replicator connectors list", "RUNNING")
                await asyncio.to_thread(user.type, "replicator connectors pause route", code=6)
            context = files.context()
            answer = await asyncio.to_thread(urllib.request.urlopen, f"{url}/metrics", context=context)
            assert answer.status == 200
    assert guide.left == []
