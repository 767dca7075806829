"""What all tests share: clusters by spec, and a directory for each replicator's state."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest

pytest_plugins = ["tests.support.clusters", "tests.support.scene"]


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Names of topics that no other test uses."""
    whole = request.node.name
    stem = "".join(c if c.isalnum() else "-" for c in whole)[:50] + f"-{zlib.crc32(whole.encode()):08x}"

    def name(last: str = "t") -> str:
        return f"{stem}-{last}"

    return name


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--simulations", type=int, default=25, help="seeds that worker groups are simulated with, per strategy"
    )
    parser.addoption(
        "--pause-seconds", type=float, default=15.0, help="how long workers are paused; more than a session timeout"
    )


@pytest.fixture
def simulations(request: pytest.FixtureRequest) -> int:
    """How many worlds each simulation is run in."""
    return int(request.config.getoption("--simulations"))


@pytest.fixture
def pause_seconds(request: pytest.FixtureRequest) -> float:
    """How long a worker is paused."""
    return float(request.config.getoption("--pause-seconds"))
