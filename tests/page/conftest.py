"""A page without clusters, for the tests of its modules."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator.observe.logging import configure, log_repeats
from replicator.observe.recent_events import recent_events
from tests.support.page import PagedWorker, paged_worker


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[PagedWorker]:
    with paged_worker(tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is logged is remembered, without what other tests have logged: no event is left out as their repeat, or
    because theirs fill the list.
    """
    for name in ("_asked_for", "_others"):
        monkeypatch.setattr(recent_events, name, deque(maxlen=500))
    configure(terminal=False)
    log_repeats(now=True)
    yield
    log_repeats(now=True)
