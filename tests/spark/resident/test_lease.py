"""A task's lease: counted from when it asked, so never longer than its owner's."""

from __future__ import annotations

import asyncio

import pytest

from replicator.spark.resident import lease as under_test
from replicator.spark.resident.lease import GrantedLease


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 1000.0
        monkeypatch.setattr(under_test, "now", lambda: self.at)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_it_counts_from_the_question(clock: Clock) -> None:
    """However long the answer takes."""
    lease = GrantedLease()
    assert not lease.holds()
    lease.ask(1)
    clock.at += 2.0
    lease.grant(1, 3.0)
    assert lease.holds()
    clock.at += 1.5
    assert not lease.holds()


def test_answers_to_nothing_and_refusals(clock: Clock) -> None:
    """Neither grants anything, and an earlier grant is not taken back: it runs out."""
    lease = GrantedLease()
    lease.grant(7, 3.0)
    assert not lease.holds()
    lease.ask(8)
    lease.grant(8, 3.0)
    lease.ask(9)
    lease.grant(9, 0.0)
    assert lease.holds()
    clock.at += 3.1
    assert not lease.holds()
    lease.grant(8, 3.0)
    assert not lease.holds()


def test_silence(clock: Clock) -> None:
    """It is as long as the oldest report waits, however many were sent at once; an answer is one to all before."""
    lease = GrantedLease()
    assert lease.silence == 0.0
    for sequence in range(1, 500):
        lease.ask(sequence)
    clock.at += 2.0
    lease.ask(500)
    assert lease.silence == 2.0
    lease.grant(499, 3.0)
    assert lease.silence == 0.0


async def test_those_that_wait_for_it(clock: Clock) -> None:
    lease = GrantedLease()
    waiting = asyncio.create_task(lease.granted())
    await asyncio.sleep(0)
    lease.ask(1)
    clock.at += 5.0
    lease.grant(1, 3.0)
    await asyncio.sleep(0)
    assert not waiting.done()
    lease.ask(2)
    lease.grant(2, 3.0)
    await waiting
