"""A run says how many tests needed a second attempt, and fails if too many did; also in several processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.second_attempts import MOST

pytest_plugins = ["pytester"]

PLUGINS = ("-p", "xdist.plugin", "-p", "pytest_rerunfailures", "-p", "tests.support.second_attempts")
ROOT = Path(__file__).parent.parent
TESTS = """
import pytest

seen = set()

@pytest.mark.parametrize("number", range({total}))
@pytest.mark.flaky(reruns=1)
def test_it(number):
    first = number not in seen
    seen.add(number)
    assert not (first and number < {flaky})
"""


@pytest.mark.parametrize(
    ("processes", "flaky", "flags", "code"),
    [
        (0, MOST, [], 0),
        (2, MOST + 1, [], 7),
        (0, 0, ["--fail-on-flaky"], 0),
        (2, 1, ["--fail-on-flaky"], 7),
    ],
)
def test_a_run(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    *,
    processes: int,
    flaky: int,
    flags: list[str],
    code: int,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the others take most of the time
    pytester.makepyfile(TESTS.format(total=MOST + 2, flaky=flaky))
    ended = pytester.runpytest_subprocess(*PLUGINS, f"-n{processes}", *flags)
    assert ended.ret == code
    ended.stdout.fnmatch_lines([f"*{flaky} tests needed a second attempt; {0 if flags else MOST} may"])
    assert ("FAILED: " in ended.stdout.str()) == (code != 0)
