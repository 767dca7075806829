"""What a single send would not leave as it is is named."""

from __future__ import annotations

import pytest

from replicator.protocol.message import StoredMessage
from replicator.routing.single_send import HELD_BACK, why_not_singly


def message(properties: bytes, body: bytes = b"\0\0\0\1x") -> StoredMessage:
    return StoredMessage(0, 0, 0, 1, 2, 0, 3, body, properties)


@pytest.mark.parametrize("name", [*HELD_BACK, b"_SYS_MSG_PRIORITY_"])
def test_properties_that_brokers_act_on(name: bytes) -> None:
    """Of the message itself, not in the name or the value of another property."""
    assert name.decode() in why_not_singly(message(b"KEYS\x01k\x02" + name + b"\x011\x02"))
    assert why_not_singly(message(b"KEYS\x01" + name + b"\x02MY" + name + b"\x011\x02")) == ""


def test_no_body() -> None:
    assert "no body" in why_not_singly(message(b"", b"\0\0\0\0"))
    assert "not UTF-8" in why_not_singly(message(b"KEYS\x01\xff\xfe\x02"))


@pytest.mark.parametrize("queues", [b"%LMQ%a", b"%LMQ%a,%LMQ%b", b"%LMQ%a,", b"a,b", b""])
def test_queues_of_one_kind(queues: bytes) -> None:
    assert why_not_singly(message(b"INNER_MULTI_DISPATCH\x01" + queues)) == ""


@pytest.mark.parametrize("queues", [b"%LMQ%a,b", b"b,%LMQ%a"])
def test_queues_of_both_kinds(queues: bytes) -> None:
    """The one that is not a light message queue is named."""
    assert "'b' beside light message queues" in why_not_singly(message(b"INNER_MULTI_DISPATCH\x01" + queues))
