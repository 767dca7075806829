"""What a route selects: what would select nothing is refused, and lists mean what texts with commas mean."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from replicator.plugins.route_options import route_options
from replicator.protocol.message import StoredMessage
from replicator.routing.message_filter import select
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity
from replicator.settings import RouteSettings, load
from tests.support.settings import flags, mistakes


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("*", "'*'"),
        (["*"], "'*'"),
        ("A || B", "'A || B'"),
        (["A||B"], "'A||B'"),
        ("A|B", "'A|B'"),
        (["A B"], "'A B'"),
        (["A,B"], "'A,B'"),
    ],
)
def test_tags_that_no_message_has(given: Any, named: str) -> None:
    """They would be compared with a message's whole tag, and drop all of them without a word."""
    (line,) = mistakes(flags(tags=given))
    assert line.startswith("tags")
    assert f"{named} is not a tag" in line
    assert "leave tags out to copy all; give several tags with commas" in line


@pytest.mark.parametrize("given", ["A,B", " A , B ", ["A", "B"], [" A ", "B\n"], ["A", "", "B"]])
def test_tags_that_messages_have(given: Any) -> None:
    """In whichever form they are given, messages with one of them are copied."""
    route = RouteSettings(tags=given)
    options = route_options(route, Identity("s", "t"), settle_timeout=0.0)
    messages = [
        StoredMessage(0, 0, 0, 1, 1, 0, 0, b"\0\0\0\0", b"TAGS\x01%b\x02" % tag) for tag in (b"A", b"B", b"C")
    ]
    assert options.subscription.expression == "A || B"
    assert select(messages, options, MessageQueue("t", "a", 0))[0] == messages[:2]


@pytest.mark.parametrize("given", ["", ",", [], [""]])
def test_no_tags_are_all(given: Any) -> None:
    """So that a connector's filter can be taken away again."""
    assert RouteSettings(tags=given).tags == []


def test_items_of_a_list_have_no_spaces_around_them() -> None:
    """No topic has any, so they would match nothing."""
    assert RouteSettings(topics=["orders ", " pay-.*"], sync=[" topics"]).topics == ["orders", "pay-.*"]


@pytest.mark.parametrize("name", ["topics", "exclude_topics", "sync_groups", "exclude_groups"])
def test_an_item_of_a_list_that_is_several(name: str) -> None:
    """It would match nothing; a quantifier's comma is another one."""
    (line,) = mistakes(flags(**{name: ["ok", "a,b"]}))
    assert line == f"{name}: 'a,b' has a comma, which no name has: make several items of it"
    assert getattr(load(flags(**{name: ["a{1,2}"]}), file=None), name) == ["a{1,2}"]


@pytest.mark.parametrize("given", ["", " ", ",", [], [""]])
@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("topics", "leave topics out to copy all"),
        ("sync_groups", "leave sync_groups out to sync all, or groups and offsets out of sync for none"),
        ("acl__accounts", "leave acl.accounts out to sync all, or acl out of sync for none"),
    ],
)
def test_a_selection_of_nothing(name: str, way_out: str, given: Any) -> None:
    """It would be a route that copies or syncs nothing, and looks healthy."""
    (line,) = mistakes({**flags(), **({"acl": {"accounts": given}} if "acl" in name else {name: given})})
    assert line.startswith(name.replace("__", "."))
    assert "it selects nothing" in line
    assert way_out in line


@pytest.mark.parametrize("given", ["", ",", []])
def test_nothing_may_be_excluded(given: Any) -> None:
    """As by default."""
    route = RouteSettings(exclude_topics=given, exclude_groups=given)
    assert route.exclude_topics == route.exclude_groups == []


@pytest.mark.parametrize(
    "name", ["rate_messages", "rate_bytes", "batch_messages", "audit_share", "sync_offsets_interval", "workers"]
)
@pytest.mark.parametrize("given", [True, False])
def test_a_switch_is_no_number(name: str, given: bool) -> None:
    """`true` would be a limit of 1, and `false` none."""
    (line,) = mistakes(flags(**{name: given}))
    assert line == f"{name} = {given}: give a number"
    (line,) = mistakes(flags(rest={"port": given}))
    assert line == f"rest.port = {given}: give a number"


def test_offsets_alone_are_of_groups_that_the_target_has() -> None:
    """They are named then; brokers refuse those of groups that they do not have."""
    assert RouteSettings(sync=["offsets"], sync_groups=["billing"]).sync == ["offsets"]
    with pytest.raises(ValidationError, match="name those that the target has in sync_groups"):
        RouteSettings(sync=["offsets"], sync_groups=["billing", "m.*"])
