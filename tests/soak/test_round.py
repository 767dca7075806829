"""A short round on real processes; `make soak` plays long ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.__main__ import play

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(400)]


async def test_a_short_round(tmp_path: Path) -> None:
    """Its seed has workers and a broker killed, a disk wiped, an older store, refused connections, new
    queues, accounts that change.
    """
    assert await play("short/17450", tmp_path, 15) == []
