"""What brokers and files say, read into accounts; secrets are not shown, whatever is wrong with it."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import cast

import pytest

from acl_sync import acl1, acl2, files
from acl_sync.merge import merge
from acl_sync.model import PUB, SUB, AclState, Dialect, Secret
from acl_sync.options import AclOptions
from acl_sync.ownership import Origin, Ownership
from replicator.client.endpoint import Endpoint
from replicator.errors import BrokerRefused, ConfigError, StartupError
from replicator.protocol.codes import Request
from replicator.protocol.frame import Frame
from tests.support.accounts import account, topic

CANARY = "canary-3f9c1b"

PLAIN = f"""
globalWhiteRemoteAddresses: [10.0.0.1, ' ']
accounts:
- accessKey: alice-key
  secretKey: {CANARY}
  whiteRemoteAddress: 192.168.0.*
  defaultTopicPerm: DENY
  defaultGroupPerm: PUB|SUB
  topicPerms: [orders=PUB|SUB, orders=SUB, secret=DENY, '%RETRY%g=SUB', odd=NONSENSE]
  groupPerms: [g=DENY]
- accessKey: 12345678
  secretKey: 87654321
  admin: true
"""


def test_plain_acl(tmp_path: Path) -> None:
    """As a broker takes it: the last of two perms holds, words that it does not know are DENY."""
    (tmp_path / "plain_acl.yml").write_text(PLAIN)
    state = files.read(tmp_path)
    alice, number = state.accounts["alice-key"], state.accounts["12345678"]
    assert [str(rule) for rule in alice.rules] == [
        "Custom Group:g Sub Allow",
        "Custom Topic:odd All Deny",
        "Custom Topic:orders Sub Allow",
        "Custom Topic:secret All Deny",
    ]
    assert not alice.topic_default
    assert (alice.group_default, alice.white) == (frozenset({SUB}), "192.168.0.*")
    assert number.admin
    assert number.secret == Secret("87654321")
    assert state.white == {"10.0.0.1"}


def test_the_directory_comes_first(tmp_path: Path) -> None:
    """An account counts where it is found first."""
    (tmp_path / "acl" / "team").mkdir(parents=True)
    (tmp_path / "plain_acl.yml").write_text(PLAIN)
    (tmp_path / "acl" / "team" / "a.yaml").write_text("accounts: [{accessKey: alice-key, secretKey: another-one}]")
    (tmp_path / "acl" / "readme.txt").write_text("no: [yaml")
    assert files.read(tmp_path).accounts["alice-key"].secret == Secret("another-one")
    assert files.read(tmp_path / "plain_acl.yml").accounts["alice-key"].secret == Secret(CANARY)


@pytest.mark.parametrize("text", [f"accounts: [{CANARY}", f"- {CANARY}", f"accounts:\n- secretKey: '{CANARY}"])
def test_a_broken_file_is_told_without_what_stands_in_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "plain_acl.yml").write_text(text)
    with pytest.raises(StartupError, match=r"plain_acl\.yml (is not valid YAML|holds no accounts)") as caught:
        files.read(tmp_path)
    assert CANARY not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_no_files(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="has neither"):
        files.read(tmp_path / "nowhere")


def test_an_account_that_cannot_be_read_is_left_as_it_is() -> None:
    state = acl1.parse([([{"accessKey": "alice-key", "secretKey": CANARY, "topicPerms": ["orders"]}], None)])
    assert not state.accounts
    assert state.unsure == {"alice-key"}
    assert "is not name=perm" in state.notes[0].text


def test_users_and_rules() -> None:
    """As 3005 and 3010 list them."""
    users = [{"username": "alice", "password": CANARY, "userType": "Normal", "userStatus": "disable"}]
    entry = {"resource": "Topic:or*", "actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.0/8"], "decision": "Deny"}
    acls = [{"subject": "User:alice", "policies": [{"policyType": "Default", "entries": [entry]}]}]
    state = acl2.parse(users, acls)
    alice = state.accounts["alice"]
    assert [str(rule) for rule in alice.rules] == ["Default Topic:or* Pub,Sub Deny from 10.0.0.0/8"]
    assert not alice.enabled
    unknown = acl2.parse(
        users, [{"subject": "User:alice", "policies": [{"policyType": "New", "entries": [entry]}]}]
    )
    assert unknown.unsure == {"alice"}
    assert acl2.parse([], acls).unsure == {"alice"}  # whoever is created under that name would have them


def test_brokers_of_the_source_that_differ() -> None:
    """What they differ in is left as it is."""
    same, other = account("account-1"), account("account-2")
    first = AclState(dialect=Dialect.ACL2, accounts={"account-1": same, "account-2": other})
    second = AclState(dialect=Dialect.ACL2, accounts={"account-1": same})
    merged = merge({"s-a": first, "s-b": second}, complete=True)
    assert merged.accounts == {"account-1": same}
    assert merged.unsure == {"account-2"}
    assert merge({"s-a": AclState(dialect=Dialect.NONE)}, complete=True).dialect is Dialect.NONE


def test_a_secret_is_never_shown() -> None:
    secret = Secret(CANARY)
    shown = [repr(secret), str(secret), f"{secret}", secret.fingerprint, repr(account("account-1", secret=CANARY))]
    assert not [text for text in shown if CANARY in text]
    assert secret == Secret(CANARY)
    assert secret != Secret("another")
    for way in (pickle.dumps, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError):
            way(secret)


def test_ownership_is_kept_as_json() -> None:
    """Names alone."""
    owned = Ownership()
    owned.own("t-a", "account-1", Origin.CREATED)
    owned.own("t-a", "account-1", Origin.ADOPTED)
    owned.own_white("t-b", frozenset({"10.0.0.1"}))
    again = Ownership(json.loads(json.dumps(owned.as_json())))
    assert again.as_json() == owned.as_json()
    assert again.accounts("t-a") == {"account-1": Origin.CREATED}
    assert again.white("t-b") == {"10.0.0.1"}
    with pytest.raises(StartupError, match="cannot be read"):
        Ownership({"t-a": {"accounts": ["account-1"]}})


def test_which_accounts() -> None:
    """Names or regular expressions, of the whole name."""
    options = AclOptions(include=("team-.*",), exclude=("team-x",), own=frozenset({"team-us"}))
    assert [name for name in ("team-a", "team-x", "team-us", "a-team-a") if options.wants(name)] == ["team-a"]
    with pytest.raises(ConfigError, match="include: '\\['"):
        AclOptions(include=("[",))


def test_rules_of_an_account_are_ordered() -> None:
    """Brokers promise no order."""
    rules = (topic("b", PUB), topic("a", PUB))
    assert account("account-1", *rules) == account("account-1", *reversed(rules))


class _WithoutRules:
    """A 5.x broker that authenticates, and has no store of rules."""

    address = "t-a:1"

    async def ask(self, code: int, _fields: object, *, body: object = ()) -> Frame:
        if code == Request.AUTH_LIST_ACL:
            raise BrokerRefused(self.address, code, 1, "The authorizationMetadataProvider is not configured.")
        users = [{"username": "alice", "password": CANARY}]
        return Frame(code=0, opaque=1, flag=1, remark="", fields={}, body=json.dumps(users).encode())


async def test_a_broker_without_rules() -> None:
    """Has users all the same, where it does not look at rules."""
    broker = cast("Endpoint", _WithoutRules())
    state = await acl2.read(broker, authorizes=False)
    assert list(state.accounts) == ["alice"]
    assert not state.authorizes
    with pytest.raises(BrokerRefused, match="not configured"):
        await acl2.read(broker)
