"""What brokers and files say, read into accounts; secrets are not shown, whatever is wrong with it."""

from __future__ import annotations

import copy
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from acl_sync import acl1, acl2, files
from acl_sync.merge import merge
from acl_sync.model import PUB, SUB, AclState, Dialect, Secret
from acl_sync.options import AclOptions
from acl_sync.ownership import Origin, Ownership
from replicator.client.endpoint import Endpoint
from replicator.errors import BrokerRefused, ConfigError, ProtocolError, StartupError
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


def write(directory: Path, text: str) -> Path:
    """A broker's file, which nobody has written to for long."""
    file = directory / "plain_acl.yml"
    file.write_text(text)
    os.utime(file, (1, 1))
    return file


def test_plain_acl(tmp_path: Path) -> None:
    """As a broker takes it: the last of two perms holds, words that it does not know are DENY."""
    write(tmp_path, PLAIN)
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
    write(tmp_path, PLAIN)
    (tmp_path / "acl" / "team" / "a.yaml").write_text("accounts: [{accessKey: alice-key, secretKey: another-one}]")
    (tmp_path / "acl" / "readme.txt").write_text("no: [yaml")
    assert files.read(tmp_path).accounts["alice-key"].secret == Secret("another-one")
    assert files.read(tmp_path / "plain_acl.yml").accounts["alice-key"].secret == Secret(CANARY)


@pytest.mark.parametrize(
    "text",
    [
        f"accounts: [{CANARY}",
        f"- {CANARY}",
        f"accounts:\n- secretKey: '{CANARY}",
        pytest.param(f"a: {'[' * 3000}{CANARY}{']' * 3000}", id="deep"),
        f"a: &a [{CANARY}]\naccounts: [*a, *a]",
        f"acounts:\n- accessKey: {CANARY}",
        f"accounts:\n  accessKey: {CANARY}",
        f"accounts: !!int {CANARY}",
        "accounts:",
        "globalWhiteRemoteAddresses: 10.0.0.1",
    ],
)
def test_a_broken_file_is_told_without_what_stands_in_it(tmp_path: Path, text: str) -> None:
    """Among it what would be read as a file without accounts, after which all would be deleted at the target."""
    write(tmp_path, text)
    with pytest.raises(StartupError, match=r"plain_acl\.yml (is not valid YAML|holds no )") as caught:
        files.read(tmp_path)
    assert CANARY not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_texts_of_a_file_are_taken_as_they_are_written(tmp_path: Path) -> None:
    """One whose secret is another one to other versions is left as it is."""
    entry = "{accessKey: 12345678, secretKey: '01234567', admin: yes, topicPerms: ~, groupPerms: null}"
    unclear = "{accessKey: alice-key, secretKey: 01234567}"
    write(tmp_path, f"accounts: [{entry}, {unclear}]\nglobalWhiteRemoteAddresses:\n")
    state = files.read(tmp_path)
    (read,) = state.accounts.values()
    assert (read.name, read.secret, read.admin, read.rules) == ("12345678", Secret("01234567"), True, ())
    assert state.unsure == {"alice-key"}
    assert "quote it" in state.notes[0].text


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BYTES", 100)
    write(tmp_path, PLAIN)
    with pytest.raises(StartupError, match="is longer than 100 bytes"):
        files.read(tmp_path)


def test_a_file_without_our_own_account_is_not_believed(tmp_path: Path) -> None:
    """It is of another broker, or was cut off: what it lacks would be deleted at the target."""
    write(tmp_path, PLAIN)
    assert files.read(tmp_path, own="alice-key").accounts
    with pytest.raises(StartupError, match="lack our own account, replicator"):
        files.read(tmp_path, own="replicator")


def test_nothing_is_gone_by_a_file_that_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as one waits for it, and longer."""
    monkeypatch.setattr(files, "_PATIENCE", 0.1)
    file = write(tmp_path, PLAIN)
    file.touch()
    state = files.read(tmp_path)
    assert not state.complete
    assert "is being written" in state.notes[-1].text
    os.utime(file, (1, 1))
    assert files.read(tmp_path).complete


def test_no_files(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="has neither"):
        files.read(tmp_path / "nowhere")


def test_an_account_that_cannot_be_read_is_left_as_it_is() -> None:
    state = acl1.parse([([{"accessKey": "alice-key", "secretKey": CANARY, "topicPerms": ["orders"]}], None)])
    assert not state.accounts
    assert state.unsure == {"alice-key"}
    assert "is not name=perm" in state.notes[0].text


@pytest.mark.parametrize(
    ("name", "value"), [("topicPerms", "orders=DENY"), ("groupPerms", {"g": "DENY"}), ("admin", "perhaps")]
)
def test_what_is_not_understood_takes_the_account_with_it(name: str, value: object) -> None:
    """Left out, a denial would be a right."""
    entry = {"accessKey": "alice-key", "secretKey": CANARY, "defaultTopicPerm": "PUB|SUB", name: value}
    state = acl1.parse([([entry], None)])
    assert not state.accounts
    assert state.unsure == {"alice-key"}
    assert name in state.notes[0].text


@pytest.mark.parametrize("value", [True, "true", "TRUE", 1, "1", "Y", "t", "yes", "on"])
def test_who_is_an_admin(value: object) -> None:
    """As brokers take it (`TypeUtils.castToBoolean` of fastjson, and YAML before it)."""
    entry = {"accessKey": "alice-key", "secretKey": CANARY, "admin": value}
    assert acl1.parse([([entry], None)]).accounts["alice-key"].admin


def test_accounts_without_a_name_are_counted() -> None:
    """Nobody knows which ones they are, so nothing counts as gone."""
    state = acl1.parse([([{"accesKey": "alice-key", "secretKey": CANARY}, "bob"], None)])
    assert not state.complete
    assert [note.text for note in state.notes] == ["2 accounts have no accessKey and are left out"]
    assert not merge({"s-a": state, "s-b": AclState(dialect=Dialect.ACL1)}, complete=True).complete


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


def test_a_source_that_looks_at_rights_in_part() -> None:
    """Is one that does: a target that does not would give more."""
    looks, does_not = (AclState(dialect=Dialect.ACL2, authorizes=each) for each in (True, False))
    assert merge({"s-a": looks, "s-b": does_not}, complete=True).authorizes
    assert not merge({"s-a": does_not, "s-b": does_not}, complete=True).authorizes


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


def test_whether_what_is_ours_has_changed_is_seen_without_reading_all_of_it() -> None:
    """Each change counts, and nothing else."""
    owned, seen = Ownership(), []
    changes: list[Callable[[], None]] = [
        lambda: owned.own("t-a", "account-1", Origin.CREATED),
        lambda: owned.own_white("t-a", frozenset({"10.0.0.1"})),
        lambda: owned.deleted("t-a", account("account-1")),
        lambda: owned.own("t-a", "account-1", Origin.CREATED),
        lambda: owned.disown("t-a", "account-1"),
    ]
    for change in changes:
        for _ in range(2):
            before, revision = owned.as_json(), owned.revision
            change()
            seen.append((owned.as_json() != before, owned.revision != revision))
    assert seen == [(True, True), (False, False)] * 5


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


class _WithFiles:
    """A broker of 4.9 that says what its files of accounts are, or an older one, which does not."""

    address = "t-a:1"

    def __init__(self, versions: str | None) -> None:
        self.versions = versions

    async def ask(self, code: int, _fields: object, *, body: object = ()) -> Frame:
        asked = code == Request.GET_BROKER_CLUSTER_ACL_INFO
        fields = {"allAclFileVersion": self.versions} if asked and self.versions is not None else {}
        return Frame(code=0, opaque=1, flag=1, remark="", fields=fields, body=b"" if asked else b"{}")


@pytest.mark.parametrize(
    ("versions", "several"),
    [
        (None, False),
        ("", False),
        ('{"/conf/plain_acl.yml":{}}', False),
        ('{"/conf/plain_acl.yml":{},"/acl/a.yml":{}}', True),
    ],
)
async def test_how_many_files_a_broker_has(versions: str | None, several: bool) -> None:
    state = await acl1.read(cast("Endpoint", _WithFiles(versions)))
    assert state.several_files is several


async def test_files_that_a_broker_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProtocolError, match="files of accounts"):
        await acl1.read(cast("Endpoint", _WithFiles("[1")))


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
