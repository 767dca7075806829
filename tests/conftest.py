"""What all tests share: clusters by spec, and a directory for each replicator's state."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from replicator.observe.logging import configure
from tests.support.attempt import ATTEMPT, attempt

pytest_plugins = [
    "tests.support.clusters",
    "tests.support.nightly",  # before those that import it
    "tests.support.compatibility_record",
    "tests.support.s3",
    "tests.support.scene",
    "tests.support.second_attempts",
]

# A busy machine is not a failure, and what hangs is ended by pytest's own time limit.
settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")

#: The markers of tests that use these fixtures, be it by way of others. `make check` leaves them out.
MARKERS = {"clusters": "brokers", "spark": "spark"}


@pytest.fixture(autouse=True)
def _log() -> None:
    """Another test's command, run in this process, has left the log with its own standard error, closed by now."""
    configure()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Names of topics that no other test uses."""
    whole = request.node.name + attempt()
    place = f"{request.node.path.name} {whole}"  # tests of several files may be called the same
    stem = "".join(c if c.isalnum() else "-" for c in whole)[:50] + f"-{zlib.crc32(place.encode()):08x}"

    def name(last: str = "t") -> str:
        return f"{stem}-{last}"

    return name


def pytest_itemcollected(item: pytest.Item) -> None:
    """Fixtures say what a test needs. One that starts brokers or Spark by itself has the marker written at it."""
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in MARKERS:
            item.add_marker(MARKERS[fixture])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on real brokers get a second chance, and the end of the run tells of each that took it."""
    for item in items:
        if item.get_closest_marker("brokers"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test names after itself is another name the second time."""
    os.environ[ATTEMPT] = str(getattr(item, "execution_count", 1))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--simulations", type=int, default=25, help="seeds that worker groups are simulated with, per strategy"
    )
    parser.addoption(
        "--pause-seconds", type=float, default=8.0, help="how long workers are paused; more than a session timeout"
    )
    parser.addoption("--page-images", action="store_true", help="write the pictures of the page into docs/images")


@pytest.fixture
def simulations(request: pytest.FixtureRequest) -> int:
    """How many worlds each simulation is run in."""
    return int(request.config.getoption("--simulations"))


@pytest.fixture
def pause_seconds(request: pytest.FixtureRequest) -> float:
    """How long a worker is paused."""
    return float(request.config.getoption("--pause-seconds"))
