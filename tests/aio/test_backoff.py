"""Pauses between attempts grow, have a limit, are spread by chance and begin again after success."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from replicator.aio.backoff import Backoff, pause_after


def test_pauses_grow_up_to_the_limit() -> None:
    backoff = Backoff(0.5, 6.0, jitter=0.0)
    assert [backoff.next() for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 6.0, 6.0]


def test_the_factor_says_how_fast_they_grow() -> None:
    backoff = Backoff(1.0, 100.0, factor=3.0, jitter=0.0)
    assert [backoff.next() for _ in range(5)] == [1.0, 3.0, 9.0, 27.0, 81.0]


def test_the_first_pause_keeps_the_limit_too() -> None:
    assert Backoff(10.0, 3.0, jitter=0.0).next() == 3.0


def test_reset_begins_again() -> None:
    backoff = Backoff(0.5, 6.0, jitter=0.0)
    assert backoff.attempts == 0
    assert [backoff.next() for _ in range(3)] == [0.5, 1.0, 2.0]
    assert backoff.attempts == 3
    backoff.reset()
    assert backoff.attempts == 0
    assert backoff.next() == 0.5


def test_a_thousand_attempts_do_not_overflow() -> None:
    backoff = Backoff(0.1, 5.0, jitter=0.0)
    for _ in range(5000):
        backoff.next()
    assert backoff.next() == 5.0
    assert backoff.attempts == 5001


@pytest.mark.parametrize(("jitter", "least"), [(0.5, 5.0), (0.2, 8.0), (1.0, 0.0)])
def test_chance_takes_up_to_its_share(jitter: float, least: float) -> None:
    backoff = Backoff(10.0, 10.0, jitter=jitter)
    pauses = [backoff.next() for _ in range(1000)]
    assert least <= min(pauses) < least + 1.0
    assert 9.0 < max(pauses) <= 10.0


def test_chance_does_not_add_up() -> None:
    backoff = Backoff(1.0, 1024.0)
    for step in range(10):
        assert 2**step / 2 <= backoff.next() <= 2**step


@pytest.mark.parametrize("attempts", [0, 1, 2, 5, 5000])
def test_what_counts_its_own_attempts_waits_as_long(attempts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spread by chance, too."""
    drawn = Mock(return_value=1.0)
    monkeypatch.setattr("random.uniform", drawn)
    backoff = Backoff(0.25, 5.0)
    for _ in range(attempts):
        backoff.next()
    assert pause_after(attempts, 0.25, 5.0) == backoff.next()
    assert {call.args for call in drawn.call_args_list} == {(0.5, 1.0)}
