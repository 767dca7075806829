"""A refusal names request and code as RocketMQ does, and gives the numbers of those without a name here."""

from __future__ import annotations

import json

import msgspec
import pytest

from replicator.client.refused import code_in, refused
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
