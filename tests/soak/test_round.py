"""A short round on real processes; `make soak` plays long ones."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.soak.__main__ import play

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(400)]


#: What the seed draws is in tests/soak/test_schedule.py, where a change of the schedule shows.
SEED: Final = "short/1000042"
SECONDS: Final = 15


async def test_a_short_round(tmp_path: Path) -> None:
    """Accounts are synced and one changes twice, a target broker comes back with an older store, a worker and a
    source broker are killed, a connection is silent in one direction, a topic grows.
    """
    assert await play(SEED, tmp_path, SECONDS) == []
