"""What a worker learns of the clocks of brokers from its own heartbeats that come back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import pytest

from replicator.group.assignment import sticky
from replicator.group.control_log import LogMessage
from replicator.group.coordinator import Coordinator
from replicator.group.member import Group
from replicator.group.signature import Signer
from replicator.routing.message_queue import MessageQueue
from replicator.state.store import Store
from tests.support.members import member_of

#: Seconds that the clock of the broker is ahead of ours.
AHEAD = 30


class Echoes:
    """A log that gives each message back at once, stored by a clock that is ahead."""

    caught_up = True
    group: Group

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None:
        stored = int((time.time() + AHEAD) * 1000)
        self.group.on_said(LogMessage(MessageQueue(topic, "a", 0), body, stored))


@pytest.mark.parametrize(("coordination", "known"), [("source", ["a"]), ("target", [])])
async def test_only_the_clocks_of_source_brokers_are_known(
    tmp_path: Path, coordination: Literal["source", "target"], known: list[str]
) -> None:
    """A broker of the target may have the name of one of the source, and another clock."""
    coordinator = Coordinator("me", strategy=sticky, timeout=5.0, lease=3.5, delay=0.5)
    group = member_of(coordinator, Store(tmp_path), signer=Signer(cluster=coordination))
    log = Echoes()
    log.group = group
    group.use(log)
    await group.beat({}, target_reachable=True)
    assert group.joined.is_set()
    assert list(group.skews) == known
    assert all(skew == pytest.approx(AHEAD, abs=1) for skew in group.skews.values())
