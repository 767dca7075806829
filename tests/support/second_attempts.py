"""Counts the tests that needed a second attempt, and fails the run if they are too many to be chance."""

from __future__ import annotations

from typing import Final

import pytest

__all__ = ["MOST"]

#: Of some six hundred tests on brokers; more are no matter of a busy machine. With `--fail-on-flaky`, none may.
MOST: Final = 4
#: What pytest-rerunfailures ends with for `--fail-on-flaky`, which it does not heed in several processes.
_FLAKY: Final = 7


def _count(config: pytest.Config) -> int:
    """Tests, not attempts: one may fail in its call and in its teardown."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return len({report.nodeid for report in reporter.stats.get("rerun", ())}) if reporter else 0


def _most(config: pytest.Config) -> int:
    return 0 if config.getoption("fail_on_flaky") else MOST


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The exit code, unless the run has failed anyway. Processes of xdist have no reporter, and do not decide."""
    if session.exitstatus == pytest.ExitCode.OK and _count(session.config) > _most(session.config):
        session.exitstatus = _FLAKY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line, also where there were none."""
    count, most = _count(config), _most(config)
    verdict = "FAILED: " if count > most else ""
    terminalreporter.write_line(f"{verdict}{count} tests needed a second attempt; {most} may", red=count > most)
