"""Who looks for garbage less often leaves the process as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from replicator.aio.garbage import rarely_collected


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_an_application_has_its_own_settings_again() -> None:
    gc.set_threshold(700, 9, 8)
    with rarely_collected():
        assert gc.get_threshold()[0] > 700
    assert gc.get_threshold() == (700, 9, 8)


def test_one_that_looks_even_less_often_is_left_alone() -> None:
    gc.set_threshold(1_000_000, 9, 8)
    with rarely_collected():
        assert gc.get_threshold() == (1_000_000, 9, 8)
    assert gc.get_threshold() == (1_000_000, 9, 8)
