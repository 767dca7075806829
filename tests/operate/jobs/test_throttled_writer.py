"""A manifest is written at once where that is rare, and never takes much of the time."""

from __future__ import annotations

import pytest

from replicator.operate.jobs.throttled_writer import ThrottledWriter


class Disk:
    """A clock, and a write that takes some of its time."""

    def __init__(self, seconds: float) -> None:
        self.now = 0.0
        self.writes = 0
        self._seconds = seconds

    def write(self) -> None:
        self.writes += 1
        self.now += self._seconds

    def writer(self) -> ThrottledWriter:
        return ThrottledWriter(self.write, clock=lambda: self.now)


def test_what_comes_rarely_is_written_at_once() -> None:
    disk = Disk(0.01)
    writer = disk.writer()
    for turn in range(1, 5):
        disk.now += 2
        writer.changed()
        assert disk.writes == turn


@pytest.mark.parametrize(("seconds", "most"), [(0.001, 100), (0.5, 11)])
def test_what_comes_often_takes_a_twentieth_of_the_time(seconds: float, most: int) -> None:
    disk = Disk(seconds)
    writer = disk.writer()
    while disk.now < 100:
        disk.now += 0.01
        writer.changed()
    assert most / 2 < disk.writes <= most


def test_what_waits_is_written_at_the_end_and_once() -> None:
    disk = Disk(0.01)
    writer = disk.writer()
    writer.changed()
    assert disk.writes == 0
    writer.close()
    writer.close()
    assert disk.writes == 1


def test_what_could_not_be_written_waits_still() -> None:
    def write() -> None:
        raise OSError("full")

    writer = ThrottledWriter(write)
    writer.changed()
    with pytest.raises(OSError, match="full"):
        writer.close()
    with pytest.raises(OSError, match="full"):
        writer.close()
