"""A page without clusters, for the tests of its modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator.observe.logging import configure, tell_repeats
from tests.support.page import PagedWorker, paged_worker


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagedWorker]:
    with paged_worker(tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def logged() -> Iterator[None]:
    """What is logged is remembered, and no event is left out as the repeat of another test's."""
    configure(terminal=False)
    tell_repeats(now=True)
    yield
    tell_repeats(now=True)
