"""A page without clusters, for the tests of its modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.page import PagedWorker, paged_worker


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagedWorker]:
    with paged_worker(tmp_path) as made:
        yield made
