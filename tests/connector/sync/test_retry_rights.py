"""What is said of a retry topic that may not be made; `tests/e2e/test_least_rights.py` types it at real brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.connector.sync import retry_rights as module
from replicator.connector.sync.retry_rights import why_not_made

NAME = "%RETRY%G_T"


def context(*, account: str = "writer", there: bool = False) -> Any:
    cluster = SimpleNamespace(account=account, writer=lambda broker: broker, addresses=["n:1", "n:2"])
    topics = {"x": {NAME: None} if there else {}}
    return SimpleNamespace(target=SimpleNamespace(cluster=cluster, cluster_name="west", topics=topics))


@pytest.fixture
def remarks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the broker says last, of which the test chooses the words."""
    said = ["no permission"]

    async def denies(broker: str, name: str) -> str:
        assert (broker, name) == ("x", NAME)
        return said[-1]

    monkeypatch.setattr(module, "denies_retry_topic", denies)
    return said


async def test_the_right_and_the_command_are_named(remarks: list[str]) -> None:
    found = await why_not_made(context(), "x", NAME)
    assert found is not None
    assert found.message == "the target's account writer may not create %RETRY%G_T (no permission)"
    command = "mqadmin createAcl -n 'n:1;n:2' -c west -s User:writer -r 'Group:*' -a Sub,Get,Create -d Allow"
    assert found.way_out == f"type `{command}`"


async def test_with_acl_1_it_takes_an_admin(remarks: list[str]) -> None:
    remarks.append("org.apache.rocketmq.acl.common.AclException: Need admin permission")
    found = await why_not_made(context(), "x", NAME)
    assert found is not None
    assert found.way_out.startswith("give writer `admin: true` in plain_acl.yml")


@pytest.mark.parametrize("what", [{"account": ""}, {"there": True}], ids=["no account", "it is there"])
async def test_nothing_is_asked_where_it_is_not_needed(remarks: list[str], what: dict[str, Any]) -> None:
    assert await why_not_made(context(**what), "x", NAME) is None


async def test_who_may_is_not_named(remarks: list[str]) -> None:
    remarks.append("")
    assert await why_not_made(context(), "x", NAME) is None
