"""A refusal names request and code as RocketMQ does, and gives the numbers of those without a name here."""

from __future__ import annotations

import json

import msgspec
import pytest

from replicator.client.refused import code_in, refused, wrong_account
from replicator.errors import RequestTimeout
from replicator.protocol.codes import Request
from replicator.protocol.frame import Frame
from replicator.state.record_values import Words


def answer(code: int, remark: str = "") -> Frame:
    return Frame(code, opaque=1, flag=1, remark=remark, fields={}, body=b"")


@pytest.mark.parametrize(
    ("request_code", "code", "said"),
    [
        (310, 2, "b:1 refused SEND_MESSAGE_V2 (310) with SYSTEM_BUSY (2): full"),
        (Request.PULL_MESSAGE, 16, "b:1 refused PULL_MESSAGE (11) with NO_PERMISSION (16): full"),
        (351, 3004, "b:1 refused request 351 with code 3004: full"),
    ],
)
def test_names_with_their_numbers(request_code: int, code: int, said: str) -> None:
    error = refused("b:1", request_code, answer(code, "full"), hint="wait")
    assert (error.message, error.hint) == (said, "wait")
    assert (error.request, error.code) == (request_code, code), "they stay numbers"
    assert f"{error.code}" == json.dumps(error.code) == str(code)


def test_a_code_alone() -> None:
    assert [code_in(answer(2)), code_in(answer(99))] == ["SYSTEM_BUSY (2)", "code 99"]


def test_a_remark_is_text_of_some_lines() -> None:
    """It gets into records, which would not fit with more, and to terminals."""
    error = refused("b:1", 310, answer(1, "a\x1b[2Jb\u202e\n\tat X" + "x" * 50_000))
    assert error.remark.startswith("a [2Jb \n at Xxx")
    assert len(error.remark) == 5_000
    msgspec.convert(str(error), Words)


def test_no_remark() -> None:
    assert refused("b:1", 310, answer(1)).message.endswith("SYSTEM_ERROR (1): no remark")


def test_a_request_without_an_answer() -> None:
    said = [str(RequestTimeout("b:1", code, 3.0)) for code in (Request.SEND_BATCH_MESSAGE, 351)]
    assert said == [
        "b:1 did not answer SEND_BATCH_MESSAGE (320) within 3 s",
        "b:1 did not answer request 351 within 3 s",
    ]


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (16, "check signature failed."),
        (16, "User:writer is not found."),
        (16, "username cannot be null."),
        (
            1,
            "org.apache.rocketmq.acl.common.AclException: Check signature failed for accessKey=writer",
        ),
        (1, "org.apache.rocketmq.acl.common.AclException: No acl config for writer, PlainPermissionManager.java:9"),
        (1, "org.apache.rocketmq.acl.common.AclException: No accessKey is configured"),
    ],
)
def test_an_unknown_account_is_not_called_a_missing_right(code: int, remark: str) -> None:
    """Brokers have one code for both; who fixes rights that are there looks in the wrong place."""
    error = refused("b:1", 320, answer(code, remark), hint="it needs PUB")
    assert error.hint.startswith(
        "the access key or the secret is wrong, or neither is set: see access_key and secret"
    )
    assert "see source.access_key and source.secret_key " in wrong_account(remark, "source")


@pytest.mark.parametrize(
    "remark",
    [
        "User:writer has no permission to access Topic:orders from 10.0.0.1, no match default policy.",
        "org.apache.rocketmq.acl.common.AclException: No default permission for orders",
        "the group is not found",
    ],
)
def test_a_missing_right_is_no_unknown_account(remark: str) -> None:
    assert wrong_account(remark) == ""
    assert refused("b:1", 320, answer(16, remark), hint="it needs PUB").hint == "it needs PUB"
