"""What the page says of versions is what the tests have shown when they were last recorded."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.support.compatibility import FEATURES, PAIR, pairs
from tests.support.compatibility_record import RECORD, Result, read, write
from tests.support.nightly import is_nightly
from tools import compatibility_page
from tools.compatibility_page import failures, passes

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parent.parent
PLUGINS = ("-p", "xdist.plugin", "-p", "pytest_rerunfailures", "-p", "tests.support.compatibility_record")
#: In the place of a test of the page.
TESTS = """
import pytest
from tests.support.compatibility_record import tried

seen = set()

@pytest.mark.flaky(reruns=1)
@pytest.mark.parametrize("case", {cases})
def test_a_pair(case):
    again = case in seen
    seen.add(case)
    if case == "late":
        pytest.skip()
    if case != "failed early":
        tried("5.3.3", case)
    assert not case.startswith("failed") and (case != "5.1.4" or again)
    tried("5.3.3", "5.5.0")

def test_of_no_feature():
    tried("4.9.7", "4.9.7")
"""


def test_the_page() -> None:
    """`make compatibility` writes it."""
    assert compatibility_page.PAGE.read_text() == compatibility_page.page(read())


def test_each_feature_has_a_test_that_passed() -> None:
    """Of its name; and no two features have the same."""
    results = read()
    tests = [PAIR, *(each.test for each in FEATURES)]
    assert len(tests) == len({*tests})
    for test in tests:
        file, _, name = test.partition("::")
        names = {
            each.name
            for each in ast.walk(ast.parse((ROOT / file).read_text()))
            if isinstance(each, ast.AsyncFunctionDef)
        }
        assert name in names, test
        assert passes(results, test), test


def test_the_record_is_of_the_features_alone() -> None:
    """Which of their cases exist, each run of all tests says."""
    tests = {PAIR, *(each.test for each in FEATURES)}
    assert {test for test in read() if test.partition("[")[0] not in tests} == set()


def test_the_scene_of_every_pair_is_not_forgotten() -> None:
    assert len(pairs()) == 16
    assert is_nightly(PAIR)
    assert {*passes(read(), PAIR)} == {*pairs()}


def test_a_pair_whose_cases_did_not_all_pass() -> None:
    """It is said to have failed, whatever day the others passed."""
    old, new = (Result((("5.3.3", "5.5.0"),), True, day, "0.1.0") for day in ("2026-01-02", "2026-02-03"))
    failed = Result((("5.3.3", "5.5.0"), ("4.9.7", "5.5.0")), False, "2026-03-04", "0.1.0")
    other = Result((("5.5.0", "5.5.0"),), True, "2026-03-04", "0.1.0")
    results = {"t::a[1]": old, "t::a[2]": new, "t::ab": failed, "t::a[3]": other}
    assert passes(results, "t::a") == {("5.3.3", "5.5.0"): "2026-01-02", ("5.5.0", "5.5.0"): "2026-03-04"}
    assert failures(results, "t::a") == []
    results |= {"t::a[4]": failed}
    assert passes(results, "t::a") == {("5.5.0", "5.5.0"): "2026-03-04"}
    of_pairs = ["4.9.7 to 5.5.0 failed on 2026-03-04", "5.3.3 to 5.5.0 failed on 2026-03-04"]
    assert failures(results, "t::a") == of_pairs


@pytest.fixture
def record(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record of runs of a test in the place of the page's own."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the others take most of the time
    pytester.mkdir("tests").joinpath("e2e").mkdir()
    return pytester.path / "record.json"


def recorded(pytester: pytest.Pytester, record: Path, cases: list[str], *flags: str) -> dict[str, Result]:
    """What is recorded after a run of these cases."""
    (pytester.path / PAIR.partition("::")[0]).write_text(TESTS.format(cases=cases))
    pytester.runpytest_subprocess(*PLUGINS, "--compatibility", str(record), *flags, "tests")
    return read(record)


@pytest.mark.parametrize("flags", [(), ("-n2",)], ids=["one process", "several"])
def test_a_run_is_recorded(pytester: pytest.Pytester, record: Path, flags: tuple[str, ...]) -> None:
    """With what each case has tried; what was skipped is not, nor a test that is not on the page."""
    found = recorded(pytester, record, ["4.9.7", "5.1.4", "failed", "late"], *flags)
    assert {test: (each.passed, each.versions) for test, each in found.items()} == {
        f"{PAIR}[4.9.7]": (True, (("5.3.3", "4.9.7"), ("5.3.3", "5.5.0"))),
        f"{PAIR}[5.1.4]": (True, (("5.3.3", "5.1.4"), ("5.3.3", "5.5.0"))),  # at its second attempt
        f"{PAIR}[failed]": (False, (("5.3.3", "failed"),)),
    }


def test_another_run_changes_what_it_has_run(pytester: pytest.Pytester, record: Path) -> None:
    """A case that fails, even before it has tried anything, counts no longer; one that is gone is forgotten."""
    before = Result((("5.3.3", "5.5.0"),), True, "2026-01-02", "0.0.9")
    write({f"{PAIR}[{case}]": before for case in ("4.9.7", "failed early", "gone")}, record)
    found = recorded(pytester, record, ["4.9.7", "failed early"], "-k", "early")
    assert found.keys() == {f"{PAIR}[4.9.7]", f"{PAIR}[failed early]"}
    assert found[f"{PAIR}[4.9.7]"] == before
    failed = found[f"{PAIR}[failed early]"]
    assert (failed.passed, failed.versions) == (False, before.versions)
    assert failed.day > before.day


def test_a_line_that_is_not_a_test_ends_a_run(pytester: pytest.Pytester, record: Path) -> None:
    """A run of all tests says so; the record that it holds to them is the one in docs/."""
    line = next(test for test in json.loads(RECORD.read_text()) if test.startswith(PAIR))
    (pytester.path / PAIR.partition("::")[0]).write_text(TESTS.format(cases=["of another name"]))
    ended = pytester.runpytest_subprocess(*PLUGINS, "tests")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    ended.stderr.fnmatch_lines([f"*has what is not a test*{line.replace('[', '[[]')}*"])
