"""On real brokers: who could not send there, can; who may no more, cannot; nobody else is touched."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from acl_sync import acl1, acl2, files
from acl_sync.model import ALL, GET, PUB, SUB, Decision, Kind, Note, Pattern, Rule
from acl_sync.plan import Verb
from replicator.errors import BrokerRefused
from replicator.protocol.codes import Request
from replicator.sandbox import ClusterSpec
from tests.support.accounts import account, topic
from tests.support.acl_scene import MIDDLE, NEW, OLD, OLD_PAIR, Scene, Side, a_scene, between
from tests.support.clusters import ClusterPool
from tests.support.printed import check_printed
from tests.support.worker import signing

pytestmark = pytest.mark.side_by_side("guarded")

PAIRS = {
    "1.0 to 2.0": (OLD, NEW),
    "5.5 to 5.3": (NEW, MIDDLE),
    "5.3 to 5.5": (MIDDLE, NEW),
    "1.0 to 1.0": (OLD, OLD_PAIR),
    "2.0 to 1.0": (NEW, OLD_PAIR),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
async def test_a_credential_becomes_valid_and_invalid(
    clusters: ClusterPool, pair: tuple[ClusterSpec, ClusterSpec]
) -> None:
    """In time, on every broker, without a restart: given, narrowed, given another secret, deleted."""
    async with a_scene(clusters, *pair) as scene:
        source, target = scene.source, scene.target
        await target.create(scene.topic, scene.other)
        sender = account(scene.name, topic(scene.topic, PUB), topic(scene.other, SUB), secret="first-secret")

        def sends() -> object:
            return target.lets_send(sender, scene.topic)

        assert not await target.lets_send(sender, scene.topic)
        await source.put(sender)
        await scene.settles(sends, True)
        assert not await target.lets_send(sender, scene.other)

        await source.put(dataclasses.replace(sender, rules=(topic(scene.topic, SUB), topic(scene.other, SUB))))
        await scene.settles(sends, False)
        await source.put(sender)
        await scene.settles(sends, True)

        renewed = account(scene.name, *sender.rules, secret="second-secret")
        await source.put(renewed)
        await scene.settles(sends, False)
        assert await target.lets_send(renewed, scene.topic)

        await source.drop(scene.name)
        plan = await scene.step()
        assert [action.verb for action in plan.blocked] == [Verb.DELETE] * len(plan.targets)
        assert await target.lets_send(renewed, scene.topic)
        scene.syncer = scene.sync(deletes=True)
        await scene.step()
        assert not await target.lets_send(renewed, scene.topic)
        assert (await scene.syncer.plan()).actions == ()


@pytest.mark.parametrize("pair", [PAIRS["5.5 to 5.3"], PAIRS["5.3 to 5.5"]], ids=["5.5 to 5.3", "5.3 to 5.5"])
async def test_everything_of_a_user(clusters: ClusterPool, pair: tuple[ClusterSpec, ClusterSpec]) -> None:
    """Prefixes, addresses, defaults, decisions, status; entries that go, one by one and all."""
    async with a_scene(clusters, *pair) as scene:
        rules = (
            Rule(kind=Kind.TOPIC, pattern=Pattern.PREFIXED, name="or", actions=frozenset({PUB, SUB})),
            Rule(kind=Kind.TOPIC, name="orders", actions=frozenset({ALL}), decision=Decision.DENY),
            Rule(kind=Kind.GROUP, pattern=Pattern.ANY, actions=frozenset({SUB, GET}), default=True),
            Rule(kind=Kind.CLUSTER, pattern=Pattern.ANY, actions=frozenset({GET, "List"})),
            Rule(
                kind=Kind.ANY,
                pattern=Pattern.ANY,
                actions=frozenset({SUB}),
                source_ips=frozenset({"10.0.0.0/8", "192.168.1.1"}),
            ),
        )
        full = account(scene.name, *rules)
        for wanted in (
            full,
            dataclasses.replace(full, enabled=False),
            dataclasses.replace(full, rules=full.rules[1:3]),
            dataclasses.replace(full, rules=()),
            full,
        ):
            await scene.source.put(wanted)
            await scene.step()
            for state in (await scene.target.states()).values():
                assert state.accounts[scene.name] == wanted
            assert (await scene.syncer.plan()).actions == ()


async def test_everything_of_an_account(clusters: ClusterPool) -> None:
    """Defaults, perms and white addresses; perms that go, one by one and all; the global white list."""
    async with a_scene(clusters, OLD, OLD_PAIR) as scene:
        full = account(
            scene.name,
            topic("orders", PUB, SUB),
            topic("secret", ALL, deny=True),
            Rule(kind=Kind.GROUP, name="g", actions=frozenset({SUB})),
            topic_default=frozenset({PUB}),
            group_default=frozenset({SUB}),
            white="10.77.0.*",
        )
        for wanted in (full, dataclasses.replace(full, rules=full.rules[1:], white=""), account(scene.name), full):
            await scene.source.put(wanted)
            await scene.step()
            for state in (await scene.target.states()).values():
                assert state.accounts[scene.name] == wanted
            assert (await scene.syncer.plan()).actions == ()
        scene.syncer = scene.sync(deletes=True)
        for white in ({"10.66.0.1", "10.77.0.*"}, {"10.66.0.1"}, set()):
            for broker in (await scene.source.client.refresh()).brokers:
                await acl1.write_white(scene.source.client.writer(broker), white)
            await scene.step()
            assert [state.white for state in (await scene.target.states()).values()] == [white] * 2


async def test_a_broker_that_was_changed_by_hand_is_healed(clusters: ClusterPool) -> None:
    """And reported; the others are left alone."""
    async with a_scene(clusters, OLD, OLD_PAIR) as scene:
        await scene.target.create(scene.topic)
        sender = account(scene.name, topic(scene.topic, PUB))
        await scene.source.put(sender)
        await scene.step()
        for by_hand in (
            partial(scene.target.drop, sender.name, only="west-b"),
            partial(scene.target.put, account(sender.name, topic(scene.topic, SUB)), only="west-b"),
        ):
            await by_hand()
            assert not await scene.target.lets_send(sender, scene.topic)
            plan = await scene.step()
            assert {action.broker for action in plan.pending} == {"west-b"}
            assert Note(sender.name, "the target's brokers differ: west-b must change") in plan.notes
            assert await scene.target.lets_send(sender, scene.topic)
            assert (await scene.syncer.plan()).actions == ()


@pytest.mark.parametrize("pair", [(OLD, NEW), (NEW, OLD_PAIR)], ids=["to 2.0", "to 1.0"])
async def test_admins_and_the_own_account(clusters: ClusterPool, pair: tuple[ClusterSpec, ClusterSpec]) -> None:
    """Admins are synced by opt-in only, the own account never, and what was there before is left alone."""
    async with a_scene(clusters, *pair) as scene:
        target = scene.target
        await target.create(scene.topic)
        boss = account(scene.name, admin=True)
        await scene.source.put(boss)
        before = await target.states()
        blocked = (await scene.step()).blocked
        assert {action.blocked for action in blocked} == {"it is an admin account: set acl.admins"}
        assert await target.states() == before
        everything = {"include": (".*",), "admins": True, "adopt": True, "deletes": True}
        plan = await scene.sync(**everything, exclude=("(?!t[0-9a-f]{8}-).*",)).plan()
        assert {action.account for action in plan.pending} == {boss.name}
        assert "sandboxadmin" not in {action.account for action in (await scene.sync(**everything).plan()).actions}
        scene.syncer = scene.sync(admins=True)
        await scene.step()
        assert await target.lets_send(boss, scene.topic)
        own = dataclasses.replace(account("t-stranger", secret="of-the-target"), name=f"{scene.name}2")
        await target.put(own)
        await scene.source.put(account(own.name, secret="of-the-source"))
        plan = await scene.step()
        assert ["existed at the target before" in action.blocked for action in plan.blocked] == [True] * len(
            plan.targets
        )
        assert all(state.accounts[own.name] == own for state in (await target.states()).values())


async def test_files_say_what_the_wire_says(clusters: ClusterPool) -> None:
    """Also as a source to sync from."""
    async with a_scene(clusters, OLD, NEW) as scene:
        wanted = account(scene.name, topic("orders", PUB), topic_default=frozenset({SUB}))
        await scene.source.put(wanted)
        [broker] = scene.source.cluster.brokers
        [state] = (await scene.source.states()).values()
        found = await asyncio.to_thread(files.read, broker.home / "conf")
        assert found == state
        scene.syncer = scene.sync(source_dir=broker.home / "conf")
        await scene.step()
        [target] = (await scene.target.states()).values()
        assert target.accounts[scene.name].secret == wanted.secret


async def test_a_refusal_does_not_name_the_secret(clusters: ClusterPool) -> None:
    """4.9 does, where it is too short."""
    side = Side(await clusters.get(OLD))
    await side.client.refresh()
    writer = side.client.writer("east-a")
    fields = {"accessKey": "long-enough", "secretKey": "zw9q!"}
    with pytest.raises(BrokerRefused, match="zw9q!"):
        await writer.ask(Request.UPDATE_AND_CREATE_ACL_CONFIG, fields)
    with pytest.raises(BrokerRefused, match=r"\*{8}") as caught:
        await acl1.write_account(writer, account("long-enough", secret="zw9q!"), before=None)
    assert "zw9q!" not in str(caught.value) + caught.value.remark
    await side.client.close()


async def command(scene: Scene, store: Path, *arguments: str, code: int = 0) -> str:
    """What `replicator acl` says to the accounts of the test, at debug level."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "replicator", "acl", *arguments),
        *("--source", scene.source.namesrv, "--target", scene.target.namesrv),
        *("--acl-accounts", f"{scene.name}.*", "--store-path", str(store)),
        env={
            **os.environ,
            "COLUMNS": "250",
            "REPLICATOR_LOG_LEVEL": "debug",
            **signing("SOURCE", "sandboxadmin", "sandboxsecret"),
            **signing("TARGET", "sandboxadmin", "sandboxsecret"),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, logged = await process.communicate()
    check_printed(("acl", *arguments), printed)
    text = (printed + logged).decode()
    assert process.returncode == code, text
    return text


async def test_a_command_without_a_broker(clusters: ClusterPool, tmp_path: Path) -> None:
    """Does what it can with the others, names the one that does not answer, and ends with 5."""
    async with clusters.fresh(OLD_PAIR) as pair, between(await clusters.get(OLD), pair) as scene:
        await scene.source.put(account(scene.name))
        pair.brokers[1].pause()  # the name servers forget one that has ended
        store = tmp_path / "store"
        assert "target broker west-b" in await command(scene, store, "plan", code=5)
        told = _json(await command(scene, store, "apply", "--yes", "--output", "json", code=5))
        assert [(each["broker"], each["error"]) for each in told["applied"]] == [("west-a", "")]
        assert [each["broker"] for each in told["unreachable_brokers"]] == ["west-b"]
        pair.brokers[1].resume()
        await pair.registered()  # a name server may have forgotten it by now
        told = _json(await command(scene, store, "apply", "--output", "json"))
        assert [(each["broker"], each["error"]) for each in told["applied"]] == [("west-b", "")], told
        assert told["unreachable_brokers"] == []


async def test_the_commands(clusters: ClusterPool, tmp_path: Path) -> None:
    """They plan, apply and tell, and write no secret anywhere, at debug level."""
    async with a_scene(clusters, OLD, NEW) as scene:
        secret = "canary/with+signs & spaces"
        sender = account(scene.name, topic(scene.topic, PUB), secret=secret, white="10.0.0.1")
        await scene.source.put(sender)
        await scene.source.put(account(f"{scene.name}2", secret=f"{secret}2"))
        await scene.target.put(account(f"{scene.name}2", secret=f"{secret}3"))
        written: list[str] = []

        async def run(*arguments: str, code: int = 0) -> str:
            written.append(await command(scene, tmp_path / "store", *arguments, code=code))
            return written[-1]

        planned = await run("plan")
        assert "create" in planned
        assert "no white addresses: 10.0.0.1" in planned
        assert "first run" in await run("apply", code=5)
        [state] = (await scene.target.states()).values()
        assert scene.name not in state.accounts
        applied = _json(await run("apply", "--yes", "--output", "json"))
        assert [(each["account"], each["error"]) for each in applied["applied"]] == [(scene.name, "")]
        [state] = (await scene.target.states()).values()
        assert state.accounts[scene.name].secret == sender.secret
        told = _json(await run("status", "--output", "json"))
        assert told["brokers"] == [{"broker": "west-a", "acl": "2.0", "ours": 1, "pending": 0, "blocked": 1}]
        await scene.source.drop(scene.name)
        assert "set sync_deletes" in await run("apply")
        assert "done" in await run("apply", "--sync-deletes")
        assert "invalid regular expression" in await run("plan", "--acl-exclude-accounts", "[", code=78)
        written += await asyncio.to_thread(lambda: [path.read_text() for path in tmp_path.rglob("*.*")])
        assert scene.name in "".join(written)
        for each in (secret, "sandboxsecret"):
            forms = {each, base64.b64encode(each.encode()).decode(), quote(each), quote(each, safe="")}
            assert not [form for form in forms for text in written if form in text]


async def test_all_users_come_with_their_passwords(clusters: ClusterPool) -> None:
    """Which is what the sync stands on."""
    side = Side(await clusters.get(NEW))
    await side.client.refresh()
    state = await acl2.read(side.client.writer("west-a"))
    assert state.accounts["sandboxadmin"].secret.reveal() == "sandboxsecret"
    await side.client.close()


def _json(text: str) -> dict[str, Any]:
    """What a command says between lines of its log."""
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text[text.index("{\n") :])[0]
    return found
