"""The group knows which accounts are ours before they are made: whoever dies meanwhile leaves nobody's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acl_sync import AclOptions, AclPlan, AclSyncer, broker_acl
from acl_sync.model import Dialect
from acl_sync.plan import Action, Verb
from replicator.connector.sync.acl import AclSync
from replicator.connector.sync.ledger import SyncLedger
from replicator.errors import ClientError, StartupError
from replicator.plugins.limits import ConnectorLimits
from replicator.settings import RouteSettings
from replicator.state.connector_configs import Connectors
from replicator.state.record import Kind
from replicator.state.record_types import fit
from replicator.state.store import Store
from tests.support.accounts import account

OURS = {"x": {"accounts": {"account-1": "created"}, "white": []}}


class Setup:
    """A plan that makes one account at target broker `x`; `said` is what is done, in order."""

    def __init__(self, store: Store) -> None:
        self.said: list[Any] = []
        self.hears, self.fails = True, False
        self.ledger = SyncLedger("route", store)
        self.context: Any = SimpleNamespace(
            accounts=AclOptions(),
            publish=self._publish,
            source=SimpleNamespace(cluster=None),
            target=SimpleNamespace(cluster=SimpleNamespace(writer=lambda name: name)),
        )

    def syncing(self) -> AclSync:
        return AclSync(RouteSettings(sync=["acl"]), self.context, self.ledger, lambda: True)

    async def _publish(self) -> bool:
        self.said.append(("told", self.ledger.get("acl")))
        return self.hears

    async def plan(self) -> AclPlan:
        action = Action(broker="x", dialect=Dialect.ACL2, verb=Verb.CREATE, account="account-1", after=account())
        return AclPlan(source=Dialect.ACL2, targets={}, actions=(action,))

    async def write(self, broker: str, *_: Any, **__: Any) -> None:
        self.said.append(("made", broker))
        if self.fails:
            raise asyncio.CancelledError


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    store = Store(tmp_path)
    made = Setup(store)
    monkeypatch.setattr(AclSyncer, "plan", made.plan)
    monkeypatch.setattr(broker_acl, "write_account", made.write)
    yield made
    store.close()


async def test_the_group_is_told_first(setup: Setup) -> None:
    syncing = setup.syncing()
    await syncing.sync()
    assert setup.said == [("told", OURS), ("made", "x")]
    await syncing.sync()
    assert setup.said[2:] == [("made", "x")]


async def test_what_the_group_does_not_hear_is_not_made(setup: Setup) -> None:
    """Until it hears, however often that is tried."""
    setup.hears, syncing = False, setup.syncing()
    for _ in range(2):
        with pytest.raises(ClientError, match="no account is changed"):
            await syncing.sync()
    assert setup.said == [("told", OURS)] * 2
    setup.hears = True
    await syncing.sync()
    assert setup.said[2:] == [("told", OURS), ("made", "x")]


async def test_one_that_ends_in_the_middle_leaves_the_account_ours(setup: Setup) -> None:
    setup.fails = True
    with pytest.raises(asyncio.CancelledError):
        await setup.syncing().sync()
    assert setup.ledger.get("acl") == OURS


async def test_a_connector_gives_itself_no_accounts(setup: Setup, tmp_path: Path) -> None:
    """Whoever may write the system topics of a group without a secret may write its configuration, and no more."""
    store = Store(tmp_path / "group")
    config = {"topics": ["orders"], "sync": ["acl"]}
    value = {"config": config, "state": "RUNNING", "origin": "rest", "epoch": 0}
    store.merge(fit(Kind.CONNECTOR, "route", [1, "evil"], value, now=time.time()))
    settings = Connectors(store, ConnectorLimits(accounts=False)).all()["route"].settings
    assert isinstance(settings, RouteSettings)
    assert settings.sync == ["acl"]
    setup.context.accounts = None  # as the worker's own settings say
    syncing = AclSync(settings, setup.context, setup.ledger, lambda: True)
    for step in (syncing.plan, syncing.sync):
        with pytest.raises(StartupError, match="accounts are not synced by this worker: its own sync has no acl"):
            await step()
    assert setup.said == []
    assert setup.ledger.get("acl") == {}
    store.close()
