"""Numbers and times as people read them."""

from __future__ import annotations

import time

import pytest

from replicator.page.words import ago, clock, kind_of, number, per_second, size
from replicator.routing.state import Phase


def test_numbers() -> None:
    assert [number(0), number(1234567), number(None)] == ["0", "1,234,567", "\u2013"]
    assert [per_second(0.0), per_second(2.34), per_second(1234.5), per_second(None)] == [
        "0",
        "2.3",
        "1,234",
        "\u2013",
    ]
    assert [size(0), size(999), size(1536), size(5 << 20), size(3 << 40)] == [
        *("0 bytes", "999 bytes", "1.5 KiB", "5.0 MiB", "3,072.0 GiB")
    ]


@pytest.mark.parametrize(
    ("seconds", "told"), [(-1, "0.0 s"), (0.23, "0.2 s"), (9.94, "9.9 s"), (9.96, "10 s"), (600, "10 m")]
)
def test_ages(seconds: float, told: str) -> None:
    assert ago(seconds) == told


def test_times_of_another_day_have_their_date() -> None:
    assert clock(0) == "never"
    assert clock(86_400) == "1970-01-02 00:00:00 UTC"
    assert len(clock(time.time())) == len("00:00:00 UTC")


def test_every_state_of_a_queue_has_a_kind() -> None:
    """Those that are idle are halted by somebody."""
    assert {phase.value for phase in Phase if kind_of(phase.value) == "idle"} == {"PAUSED", "STOPPED"}
    assert kind_of("FAILED") == "bad"
