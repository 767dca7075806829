"""What the syncer makes of clusters that are not as they should be; real ones are in test_brokers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from acl_sync import AclOptions, AclSyncer, acl1, broker_acl
from acl_sync import syncer as under_test
from acl_sync.model import Account, AclState, Dialect
from acl_sync.plan import Verb
from replicator.client.cluster import Broker, Cluster, Topology
from replicator.errors import BrokerRefused, ReplicatorError, RequestTimeout, StartupError, Unreachable
from replicator.protocol.codes import Request
from tests.support.accounts import account

States = dict[str, AclState | Exception]


class Side:
    """A cluster whose brokers answer with a state, or an error."""

    def __init__(
        self,
        states: States,
        *,
        gone: tuple[str, ...] = (),
        addresses: str = "localhost:9876",
        verified: bool = False,
        account: str = "",
    ) -> None:
        self.states = states
        self.account = account
        self.gone = gone
        self.addresses = [addresses]
        self.verified = verified

    async def refresh(self) -> Topology:
        return Topology("c", {name: Broker(name, {0: f"{name}:1"}) for name in self.states})

    def brokers(self) -> dict[str, Broker]:
        return {name: Broker(name, {0: f"{name}:1"}) for name in (*self.states, *self.gone)}

    def writer(self, name: str) -> Any:
        return _Endpoint(f"{name}:1", self.states[name])


class _Endpoint:
    def __init__(self, address: str, state: AclState | Exception) -> None:
        self.address = address
        self.state = state


@pytest.fixture(autouse=True)
def _no_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    async def detect(endpoint: Any) -> broker_acl.BrokerAcl:
        if isinstance(endpoint.state, Exception):
            raise endpoint.state
        return broker_acl.BrokerAcl(endpoint.state.dialect)

    async def read(endpoint: Any, _speech: broker_acl.BrokerAcl) -> Any:
        return endpoint.state

    monkeypatch.setattr(broker_acl, "detect", detect)
    monkeypatch.setattr(broker_acl, "read", read)


def holding(*accounts: Account) -> AclState:
    return AclState(dialect=Dialect.ACL2, accounts={each.name: each for each in accounts})


def syncer(source: Side, target: Side, owned: dict[str, Any] | None = None, *, deletes: bool = False) -> AclSyncer:
    options = AclOptions(deletes=deletes)
    return AclSyncer(cast("Cluster", source), cast("Cluster", target), options, owned=owned)


NONE = AclState(dialect=Dialect.NONE)


async def test_no_access_control() -> None:
    """Says which side, and what to switch on."""
    with pytest.raises(StartupError, match=r"the source checks no accounts.*authenticationEnabled"):
        await syncer(Side({"s-a": NONE}), Side({"t-a": holding()})).plan()
    with pytest.raises(StartupError, match=r"the target checks no accounts.*anyone"):
        await syncer(Side({"s-a": holding()}), Side({"t-a": NONE})).plan()


async def test_a_refusal() -> None:
    """Names the broker and the rights that are needed."""
    refusal = BrokerRefused("t-a:1", 26, 16, "no permission")
    with pytest.raises(StartupError, match=r"target broker t-a does not list its accounts.*Super"):
        await syncer(Side({"s-a": holding()}), Side({"t-a": refusal})).plan()


async def test_a_broker_that_is_down() -> None:
    """The others go on; where none is left, that is an error."""
    down = Unreachable("t-b:1", "refused")
    made = await syncer(Side({"s-a": holding(account())}), Side({"t-a": holding(), "t-b": down})).plan()
    assert [action.broker for action in made.pending] == ["t-a"]
    assert "target broker t-b is skipped now" in str(made.notes[-1])
    assert [broker for broker, _ in made.unreachable_brokers] == ["t-b"]
    with pytest.raises(Unreachable):
        await syncer(Side({"s-a": holding()}), Side({"t-b": down})).plan()


@pytest.mark.parametrize(
    ("where", "verified", "sides"),
    [("10.1.0.7:9876", False, ["source", "target"]), ("10.1.0.7:9876", True, []), ("[::1]:9876", False, [])],
)
async def test_secrets_that_others_can_read_on_their_way(where: str, sides: list[str], *, verified: bool) -> None:
    """A note for each side to which they go over a network without TLS that checks who answers."""
    source = Side({"s-a": holding(account())}, addresses=where, verified=verified)
    target = Side({"t-a": holding()}, addresses=where, verified=verified)
    found = [str(note) for note in (await syncer(source, target).plan()).notes]
    assert [note for note in found if "unprotected" in note] == [
        f"accounts' secrets cross the network to the {side} unprotected: set {side}.tls.mode to verify"
        for side in sides
    ]


async def test_nothing_is_gone_with_a_broker() -> None:
    """Whether the source's broker is down, or no longer known to the name servers."""
    owned = {"t-a": {"accounts": {"account-1": "created"}, "white": []}}
    target = Side({"t-a": holding(account())})
    for source in (
        Side({"s-a": holding(), "s-b": RequestTimeout("s-b:1", 26, 10)}),
        Side({"s-a": holding()}, gone=("s-b",)),
    ):
        made = await syncer(source, target, owned, deletes=True).plan()
        assert made.actions == ()
        assert "s-b" in str(made.notes[0])
        assert [broker for broker, _ in made.unreachable_brokers] == ["s-b"]
    assert len((await syncer(Side({"s-a": holding()}), target, owned, deletes=True).plan()).pending) == 1


#: What brokers say to who makes an account that is there, and what is said where no answer comes.
THERE = BrokerRefused("t-a:1", Request.AUTH_CREATE_USER, 16, "The user is existed")
LOST = RequestTimeout("t-a:1", Request.AUTH_CREATE_USER, 10)
OURS = {"t-a": {"accounts": {"account-1": "created"}, "white": []}}


async def tried(monkeypatch: pytest.MonkeyPatch, one: AclSyncer, *errors: ReplicatorError) -> dict[str, Any]:
    """What is ours after as many plans, of which each writes one account in vain."""
    left = iter(errors)

    async def write(*_: Any, **__: Any) -> None:
        raise next(left)

    monkeypatch.setattr(broker_acl, "write_account", write)
    for error in errors:
        made = await one.plan()
        one.claim(made)
        [applied] = await one.apply(made)
        assert applied.error == str(error)
    return one.owned


async def test_a_lost_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the account ours: it may be there, and is, where the next attempt is refused for that."""
    one = syncer(Side({"s-a": holding(account())}), Side({"t-a": holding()}))
    assert await tried(monkeypatch, one, LOST) == OURS
    assert await tried(monkeypatch, one, THERE) == OURS
    earlier = syncer(Side({"s-a": holding(account())}), Side({"t-a": holding()}), OURS)
    assert await tried(monkeypatch, earlier, THERE) == OURS


async def test_an_account_that_somebody_else_makes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not ours: it stays as it is without acl.adopt, and is not deleted later."""
    target = Side({"t-a": holding()})
    one = syncer(Side({"s-a": holding(account())}), target, deletes=True)
    assert (await tried(monkeypatch, one, THERE))["t-a"]["accounts"] == {}
    target.states["t-a"] = holding(account(secret="theirs"))
    [blocked] = (await one.plan()).actions
    assert "acl.adopt" in blocked.blocked


async def test_rights_that_are_refused_leave_the_account_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made before its rights were written."""
    refused = BrokerRefused("t-a:1", Request.AUTH_CREATE_ACL, 16, "no resource")
    one = syncer(Side({"s-a": holding(account())}), Side({"t-a": holding()}))
    assert await tried(monkeypatch, one, refused) == OURS


async def test_what_is_claimed_is_ours_before_it_is_made() -> None:
    """Whoever starts again in between with what was kept makes it, and may delete it later."""
    source, target = Side({"s-a": holding(account())}), Side({"t-a": holding()})
    one = syncer(source, target)
    assert one.claim(await one.plan())
    assert not one.claim(await one.plan())
    ours = {"t-a": {"accounts": {"account-1": "created"}, "white": []}}
    assert one.owned == ours
    half_made = Side({"t-a": holding(account())})
    assert not (await syncer(source, half_made, ours).plan()).actions
    gone = await syncer(Side({"s-a": holding()}), half_made, ours, deletes=True).plan()
    assert [each.verb for each in gone.pending] == ["delete"]


def plain(*accounts: Account) -> AclState:
    return AclState(dialect=Dialect.ACL1, accounts={each.name: each for each in accounts})


async def test_a_list_without_our_own_account_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """4.9 empties its file before it writes it, and answers meanwhile."""
    monkeypatch.setattr(acl1, "version", _version)
    own = account("replicator")
    source = Side({"s-a": plain(own), "s-b": plain(own, account())}, account="replicator")
    target = Side({"t-a": plain(own)}, account="replicator")
    await syncer(source, target).plan()
    for side, broker in ((source, "s-b"), (target, "t-a")):
        whole, side.states[broker] = side.states[broker], plain()
        if side is target:
            with pytest.raises(Unreachable, match="lacks our own, replicator"):
                await syncer(source, target).plan()
        else:
            assert [name for name, _ in (await syncer(source, target).plan()).unreachable_brokers] == ["s-b"]
        side.states[broker] = whole


async def _version(_endpoint: Any) -> str:
    return "1"


async def test_what_is_gone_is_looked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "_AGAIN", 0.0)
    owned = {"t-a": {"accounts": {"account-1": "created", "account-2": "created"}, "white": []}}
    target = Side({"t-a": holding(account(), account("account-2"))})
    source = Side({"s-a": holding()})
    made = await syncer(source, target, owned, deletes=True).plan()
    assert {action.account for action in made.pending} == {"account-1", "account-2"}
    looks = iter([holding(), holding(account())])

    async def read(endpoint: Any, _speech: broker_acl.BrokerAcl) -> Any:
        return next(looks) if endpoint.address == "s-a:1" else endpoint.state

    monkeypatch.setattr(broker_acl, "read", read)
    made = await syncer(source, target, owned, deletes=True).plan()
    assert [(action.verb, action.account) for action in made.pending] == [(Verb.DELETE, "account-2")]


@pytest.mark.parametrize("verb", [Verb.CREATE, Verb.FORGET])
async def test_what_a_broker_of_1_0_lacks_is_looked_for_twice(monkeypatch: pytest.MonkeyPatch, verb: Verb) -> None:
    """4.9 empties its file before it writes it: what is there would be written over, or forgotten as ours."""
    monkeypatch.setattr(under_test, "_AGAIN", 0.0)
    source = plain(account()) if verb is Verb.CREATE else plain()
    one = syncer(Side({"s-a": source}), Side({"t-a": plain()}), None if verb is Verb.CREATE else OURS)
    monkeypatch.setattr(acl1, "version", _version)
    assert [action.verb for action in (await one.plan()).actions] == [verb]
    looks = iter([plain(), plain(account(secret="another"))])

    async def read(endpoint: Any, _speech: broker_acl.BrokerAcl) -> Any:
        return next(looks) if endpoint.address == "t-a:1" else endpoint.state

    monkeypatch.setattr(broker_acl, "read", read)
    assert not (await one.plan()).pending
