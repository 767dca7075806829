"""What brokers let an account without any right do, and how much of it their configuration can forbid."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from acl_sync.exposure import exposed, shows_secrets
from acl_sync.model import Account, AclState, Dialect
from acl_sync.options import AclOptions
from acl_sync.ownership import Ownership
from acl_sync.plan import make_plan
from replicator.client.brokers import read_settings
from replicator.client.cluster import Cluster as Client
from replicator.client.endpoint import Endpoint
from replicator.client.security import Credentials
from replicator.errors import BrokerRefused
from replicator.protocol.codes import Request
from replicator.sandbox import ClusterSpec
from tests.support.accounts import account
from tests.support.acl_scene import MIDDLE, NEW, OLD, Scene, Side, between
from tests.support.clusters import ClusterPool
from tests.support.worker import until

pytestmark = pytest.mark.side_by_side("guarded")

#: All but one of the settings that decide what is checked, as a broker.conf has them.
GUARDED = (
    "configBlackList;brokerConfigPath;authenticationEnabled;authenticationMetadataProvider;authenticationProvider;"
    "authenticationStrategy;authenticationWhitelist;authorizationEnabled;authorizationMetadataProvider;"
    "authorizationProvider;authorizationStrategy;initAuthenticationUser;innerClientAuthenticationCredentials;"
    "migrateAuthFromV1Enabled"
)
LAST = "authorizationWhitelist"
GROUP = json.dumps({"groupName": "made-by-nobody", "consumeEnable": True, "retryQueueNums": 1}).encode()
TOPIC = {
    "topic": "made-by-nobody",
    "defaultTopic": "TBW102",
    "readQueueNums": "1",
    "writeQueueNums": "1",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}
#: Requests that change something, and whether a broker with ACL 1.0 of 4.9.7 and one with ACL 2.0 of 5.x do it for
#: an account without any right: the table of docs/ACL.md.
CHANGES: Final = {
    Request.UPDATE_AND_CREATE_TOPIC: (TOPIC, b"", False, False),
    Request.UPDATE_BROKER_CONFIG: ({}, b"traceTopicEnable=false\n", False, True),
    Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ({}, GROUP, False, True),
    Request.DELETE_SUBSCRIPTIONGROUP: ({"groupName": "made-by-nobody"}, b"", False, False),
    Request.DELETE_TOPIC_IN_BROKER: ({"topic": "made-by-nobody"}, b"", False, False),
}


@asynccontextmanager
async def nobody(side: Side, who: Account) -> AsyncIterator[Endpoint]:
    """The cluster's broker, as an account sees it that has no right at all."""
    await side.put(who)
    client: Client = side.connect(Credentials(who.name, who.secret.reveal()))
    try:
        name, *_ = (await client.refresh()).brokers
        endpoint = client.writer(name)

        async def known() -> bool:
            return bool(await read_settings(endpoint))

        await until(known)
        yield endpoint
    finally:
        await client.close()
        await side.drop(who.name)


async def warnings(scene: Scene) -> list[str]:
    """Of the plan's notes those about what everybody may change."""
    return [str(note) for note in (await scene.syncer.plan()).notes if "switch the checks off" in str(note)]


async def lets(endpoint: Endpoint, code: int, fields: dict[str, str], body: bytes) -> bool:
    try:
        await endpoint.ask(code, fields, body=(body,))
    except BrokerRefused as error:
        if error.code != 16 and "AclException" not in error.remark:  # 4.9 has no code for it
            raise
        return False
    return True


@pytest.mark.parametrize("spec", [OLD, MIDDLE, NEW], ids=lambda spec: spec.version)
async def test_what_an_account_without_rights_may_change(clusters: ClusterPool, spec: ClusterSpec) -> None:
    side = Side(await clusters.get(spec))
    try:
        async with nobody(side, account("nobody-at-all", secret="without-rights")) as endpoint:
            done = {code: await lets(endpoint, code, fields, body) for code, (fields, body, *_) in CHANGES.items()}
    finally:
        await side.client.close()
    column = 2 if spec.acl == "1.0" else 3
    assert done == {code: row[column] for code, row in CHANGES.items()}


async def test_the_plan_names_what_a_target_lets_everybody_change(clusters: ClusterPool) -> None:
    """Until its configuration forbids it: then nobody can, and the plan says no more."""
    guarded = ClusterSpec(
        name="west", version="5.5.0", acl="2.0", properties={"configBlackList": f"{GUARDED};{LAST}"}
    )
    who = account("nobody-at-all", secret="without-rights")
    switched_off: tuple[int, dict[str, str], bytes] = (
        Request.UPDATE_BROKER_CONFIG,
        {},
        b"authorizationEnabled=false\n",
    )
    source = await clusters.get(OLD)
    async with clusters.fresh(NEW) as open_one, between(source, open_one) as scene:
        (note,) = await warnings(scene)
        assert f"add {';'.join(sorted(exposed({})))} to" in note
        async with nobody(scene.target, who) as endpoint:
            assert await lets(endpoint, *switched_off)
            assert (await read_settings(endpoint))["authorizationEnabled"] == "false"
    async with clusters.fresh(guarded) as closed, between(source, closed) as scene:
        assert not await warnings(scene)
        async with nobody(scene.target, who) as endpoint:
            assert not await lets(endpoint, *switched_off)
            assert (await read_settings(endpoint))["authorizationEnabled"] == "true"
            # What no list forbids (docs/ACL.md): a value with a line break is a line of the file at the next start.
            code, fields, body = switched_off
            assert await lets(endpoint, code, fields, b"regionId=DefaultRegion\\n" + body)
            [broker] = closed.brokers
            assert "\nauthorizationEnabled=false\n" in (broker.home / "conf" / "broker.conf").read_text()


def test_what_a_configuration_leaves_open() -> None:
    assert exposed({"configBlackList": GUARDED}) == {"authorizationWhitelist"}
    assert exposed({}) == exposed({"configBlackList": "brokerConfigPath"}) == {*GUARDED.split(";")[2:], LAST}
    assert not exposed({"configBlackList": f"{GUARDED};{LAST}"})


def test_a_broker_takes_the_spaces_of_its_list_for_part_of_the_names() -> None:
    """`configBlackList.split(";")`: what is not called exactly so is not forbidden."""
    assert exposed({"configBlackList": f"{GUARDED}; {LAST}"}) == {LAST}


@pytest.mark.parametrize("name", ["initAuthenticationUser", "innerClientAuthenticationCredentials"])
def test_a_configuration_that_has_the_secret_of_a_super_user(name: str) -> None:
    """Request 26 shows it to every account."""
    assert shows_secrets({name: '{"username":"root","password":"secret"}', "brokerName": "a"}) == {name}
    assert not shows_secrets({name: " ", "brokerName": "a"})
    state = AclState(dialect=Dialect.ACL2, shown=frozenset({name}))
    made = make_plan(AclState(dialect=Dialect.ACL2), {"t-a": state}, Ownership(), AclOptions())
    [note] = made.notes
    assert str(note).startswith("t-a: any account, whatever its rights, can read the secret of a Super user")
    assert name in str(note)
