"""How accounts of ACL 1.0 are written: 4.9 can take the last perm of one away with the account alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from acl_sync import acl1, broker_acl
from acl_sync.broker_acl import BrokerAcl
from acl_sync.model import PUB, Account, Dialect
from replicator.client.endpoint import Endpoint
from replicator.errors import BrokerRefused, StartupError
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame
from tests.support.accounts import account, topic


class Broker:
    """Keeps the topic perms of accounts; it refuses those in `refused`."""

    address = "t-a:1"

    def __init__(self, *accounts: Account, refused: str = "") -> None:
        self.refused = refused
        self.kept = {each.name: "a=PUB" for each in accounts}

    async def ask(self, code: int, fields: Mapping[str, str], **_: Any) -> Frame:
        perms = fields.get("topicPerms", "")
        if code == Request.DELETE_ACL_CONFIG:
            del self.kept[fields["accessKey"]]
        elif perms == self.refused:
            raise BrokerRefused(self.address, code, Response.SYSTEM_ERROR, "no")
        else:
            self.kept[fields["accessKey"]] = perms
        return Frame(0, 1, 1, "", {}, b"")


async def write(broker: Broker, after: Account, before: Account) -> None:
    await acl1.write_account(cast("Endpoint", broker), after, before=before)


BEFORE = account("account-1", topic("a", PUB))


async def test_the_last_perm_goes_with_the_account() -> None:
    broker = Broker(BEFORE, refused="no perms are refused")
    await write(broker, account("account-1"), BEFORE)
    assert broker.kept == {"account-1": ""}


async def test_an_account_that_is_refused_then_is_what_it_was() -> None:
    """Else it would be gone, and whoever uses it locked out."""
    broker = Broker(BEFORE)
    with pytest.raises(BrokerRefused):
        await write(broker, account("account-1"), BEFORE)
    assert broker.kept == {"account-1": "a=PUB"}


class Older:
    """A broker that does not know the request for its accounts."""

    address = "t-a:1"

    async def ask(self, code: int, *_: Any, **__: Any) -> Frame:
        raise BrokerRefused(self.address, code, Response.REQUEST_CODE_NOT_SUPPORTED, "not supported")


@pytest.mark.parametrize(("dialect", "way_out"), [(Dialect.ACL1, "acl.source_dir"), (Dialect.ACL2, "5.3")])
async def test_a_broker_that_does_not_say_its_accounts(dialect: Dialect, way_out: str) -> None:
    """The way out is another for each kind."""
    with pytest.raises(StartupError, match="does not return its ACL") as caught:
        await broker_acl.read(cast("Endpoint", Older()), BrokerAcl(dialect))
    assert way_out in caught.value.hint
    assert "update" in caught.value.hint


def test_perms_that_are_not_a_list_are_named() -> None:
    """Left out they would allow what they deny."""
    entry = {"accessKey": "app", "secretKey": "12345678", "topicPerms": "orders=DENY"}
    (note,) = acl1.parse([([entry], None)]).notes
    assert note.text == "left as it is, since it cannot be read: topicPerms is not a list"
