"""What a worker's connectors may do is decided by its own settings, before any record of the group is read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.group.signature import Signer
from replicator.observe.audit import Audit
from replicator.routing.options import Identity
from replicator.settings import Settings
from replicator.settings.secret_file import write_secret
from replicator.worker.builder import _context


@pytest.mark.parametrize(("sync", "admins"), [([], None), (["topics", "pending"], None), (["acl"], False)])
def test_accounts_are_synced_only_where_the_worker_says_so(
    tmp_path: Path, sync: list[str], admins: bool | None
) -> None:
    """Its options are those of its own table, whatever connectors say."""
    write_secret(tmp_path / "secret")
    clusters = {"source": {"namesrv": ["e:1"]}, "target": {"namesrv": ["w:1"]}}
    secret = {"worker_group_secret_file": tmp_path / "secret"}
    settings = Settings.model_validate({**clusters, **secret, "sync": sync})
    parts: Any = (
        settings,
        SimpleNamespace(me="w"),
        SimpleNamespace(directory=tmp_path),
        SimpleNamespace(source=SimpleNamespace(account="a"), target=SimpleNamespace(account="b"), mirror=None),
        SimpleNamespace(source=None, target=None, identity=Identity("s", "t")),
        SimpleNamespace(publish=None, name="g", signer=Signer.of(settings)),
    )
    accounts = _context(*parts, audit=Audit(tmp_path / "audit.jsonl")).accounts
    assert (accounts and accounts.admins) is admins
    assert accounts is None or accounts.own == {"a", "b"}
