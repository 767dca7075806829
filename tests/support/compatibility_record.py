"""Records with which versions the tests of docs/COMPATIBILITY.md pass: `make compatibility` writes the record.

A pair of versions is not read from a test's name: it is what the test has let copy, as `tried` was told.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from replicator import __version__
from tests.support.compatibility import FEATURES, PAIR, Pair
from tests.support.nightly import missing

__all__ = ["RECORD", "Recorder", "Result", "read", "tried", "write"]

RECORD: Final = Path(__file__).parents[2] / "docs" / "compatibility.json"
_TESTS: Final = frozenset({PAIR, *(feature.test for feature in FEATURES)})
_OPTION: Final = "--compatibility"
_PROPERTY: Final = "versions"
_TO: Final = " to "

#: What the running test has tried.
_tried: set[Pair] = set()


def tried(source: str, target: str) -> None:
    """The running test has something copied from a cluster of one version to one of another."""
    _tried.add((source, target))


@dataclass(frozen=True, slots=True)
class Result:
    """How the last run of a test ended, by its whole id: with what versions, when, and of which replicator."""

    versions: tuple[Pair, ...]
    passed: bool
    day: str
    replicator: str


def read(path: Path = RECORD) -> dict[str, Result]:
    """The results by the ids of their tests; none where there is no record."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {
        test: Result(**{**each, "versions": tuple((source, target) for source, target in each["versions"])})
        for test, each in found.items()
    }


def write(results: dict[str, Result], path: Path = RECORD) -> None:
    """One line for each test, so that a change of one is a change of one line."""
    lines = [f"{json.dumps(test)}: {json.dumps(asdict(result))}" for test, result in sorted(results.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


class Recorder:
    """Writes each result as soon as the test has ended, so that a run may be cut short."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, set[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test is reported when it was set up, run and torn down; a second attempt begins with another setup."""
        test = _without_group(report.nodeid)
        outcomes = self._outcomes.setdefault(test, set())
        if report.when == "setup":
            outcomes.clear()
        outcomes.add(report.outcome)
        if report.when == "teardown" and "skipped" not in outcomes:
            found = {str(pair) for name, pair in report.user_properties if name == _PROPERTY}
            versions = {(source, target) for source, _, target in (pair.partition(_TO) for pair in found)}
            self._keep(test, versions, passed=outcomes == {"passed"})

    def _keep(self, test: str, versions: set[Pair], *, passed: bool) -> None:
        results = read(self._path)
        if not passed and test in results:  # it may have failed before it came to them
            versions |= {*results[test].versions}
        day = datetime.now(UTC).date().isoformat()
        results[test] = Result(tuple(sorted(versions)), passed, day, __version__)
        write(results, self._path)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_OPTION, metavar="FILE", help="run the tests of docs/COMPATIBILITY.md alone, and record them")


def pytest_configure(config: pytest.Config) -> None:
    """Processes of xdist send their reports to the one that records them."""
    if (path := config.getoption(_OPTION)) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(path)))


@pytest.hookimpl(wrapper=True)  # others hold to all tests what they have, before any are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Tests of the page alone, where they are recorded. A line of the record that is not a test is an error."""
    path = config.getoption(_OPTION)
    if not any("::" in each for each in config.args):
        _hold(Path(path or RECORD), (item.nodeid for item in items), forget=path is not None)
    yield
    if path:
        items[:] = [item for item in items if _without_group(item.nodeid).partition("[")[0] in _TESTS]


def _without_group(test: str) -> str:
    """The id of a test without what `--dist loadgroup` puts behind it."""
    name, _, group = test.rpartition("@")
    return test if not name or "]" in group else name


def _hold(path: Path, collected: Iterable[str], *, forget: bool) -> None:
    results = read(path)
    gone = missing(results, collected)
    if gone and not forget:
        raise pytest.UsageError(
            f"{path} has what is not a test; `make compatibility` drops: {', '.join(sorted(gone))}"
        )
    if gone:
        write({test: result for test, result in results.items() if test not in gone}, path)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _tried.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The pairs go along with the report, also to another process."""
    item.user_properties[:] = [each for each in item.user_properties if each[0] != _PROPERTY]
    item.user_properties += [(_PROPERTY, _TO.join(pair)) for pair in sorted(_tried)]
    return (yield)
