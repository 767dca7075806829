"""What a refused send means for the queue, and what errors tell a person."""

from __future__ import annotations

import pytest

from replicator.errors import BrokerRefused, ReplicatorError
from replicator.routing.faults import (
    MessageRejected,
    OutcomeUnknown,
    SourceGap,
    SourceReset,
    TargetBlocked,
    classify_refusal,
)


@pytest.mark.parametrize(
    ("code", "remark", "kind"),
    [
        (2, "[PC_SYNCHRONIZED]broker busy, start flow control for a while", TargetBlocked),
        (2, "[TIMEOUT_CLEAN_QUEUE]broker busy", TargetBlocked),
        (14, "service not available now. It may be caused by one of the following reasons", TargetBlocked),
        (16, "the broker[127.0.0.1] sending message is forbidden", TargetBlocked),
        (17, "topic[T] not exist", OutcomeUnknown),
        (29, "request queueId[9] is illegal", OutcomeUnknown),
        (1, "request queueId[9] is illegal", OutcomeUnknown),
        (13, "the message is illegal, maybe msg body or properties length not matched", MessageRejected),
        (1, "RuntimeException: message body size exceeded", MessageRejected),
        (1, "IllegalArgumentException: newPosition < 0", MessageRejected),
        (1, 'java.lang.NumberFormatException: For input string: "4294967295"', MessageRejected),
        (1, "in-sync replicas not enough", TargetBlocked),
        (1, "create mapped file failed, server is busy or broken.", TargetBlocked),
        (1, "org.apache.rocketmq.acl.common.AclException: No default permission for orders", TargetBlocked),
        (1, "store unknown error", OutcomeUnknown),
        (1, "", OutcomeUnknown),
        (999, "from the future", OutcomeUnknown),
    ],
)
def test_refusals_of_real_brokers(code: int, remark: str, kind: type[ReplicatorError]) -> None:
    """Only what surely was not stored is tried again as it is; the broker's words stay in the message."""
    error = classify_refusal(BrokerRefused("127.0.0.1:10909", 320, code, remark))
    assert type(error) is kind
    assert remark in str(error)
    assert f"code {code}" in str(error)


@pytest.mark.parametrize("code", [2, 14, 16, 17, 29])
def test_what_a_person_can_mend_has_a_hint(code: int) -> None:
    """Disk, rights, topics."""
    assert classify_refusal(BrokerRefused("x:1", 320, code, "")).hint


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (16, "check signature failed."),
        (1, "org.apache.rocketmq.acl.common.AclException: Check signature failed for accessKey=writer"),
    ],
)
def test_a_wrong_secret_is_called_that(code: int, remark: str) -> None:
    """Nothing was stored; no right that anybody grants would help."""
    error = classify_refusal(BrokerRefused("x:1", 320, code, remark))
    assert type(error) is TargetBlocked
    assert "target.secret_key" in error.hint
    assert "PUB" not in error.hint
    assert error.code == "no_permission"


def test_a_gap_counts_its_messages() -> None:
    """Which ones, and what the policy for it is."""
    gap = SourceGap(10, 25)
    assert "15 messages at offsets 10 to 24" in str(gap)
    assert "on_gap=skip" in gap.hint


def test_a_reset_tells_both_offsets() -> None:
    """Where we were, and where the queue ends now."""
    reset = SourceReset(100, 0, 7)
    assert "offset 7" in str(reset)
    assert "position 100" in str(reset)
