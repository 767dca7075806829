"""What `make test` leaves out exists, and no promise is left without a test there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.nightly import NIGHTLY, is_nightly, missing

ROOT = Path(__file__).parent.parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_cases_and_whole_tests() -> None:
    assert is_nightly("tests/e2e/test_upgrade.py::test_in_place_under_load[SIGKILL first]")
    assert not is_nightly("tests/e2e/test_upgrade.py::test_in_place_under_load[SIGTERM first]")
    assert is_nightly("tests/spark/test_hadoop.py::test_a_cluster_of_yarn[any]")


def test_lines_that_are_no_test() -> None:
    """Only of files that are collected."""
    file = "tests/e2e/test_upgrade.py"
    assert (
        missing(NIGHTLY, [f"{file}::test_in_place_under_load[SIGKILL first]", "tests/test_docs.py::test_the_pages"])
        == set()
    )
    assert missing(NIGHTLY, [f"{file}::test_in_place_under_load[SIGTERM first]"]) == {
        f"{file}::test_in_place_under_load[SIGKILL first]"
    }


def test_each_promise_is_shown_by_a_test_of_make_test() -> None:
    """At least one of the files that its row names has a test that is not left out."""
    paths = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}

    def is_run(path: Path) -> bool:
        names = (each.name for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, FUNCTIONS))
        place = path.relative_to(ROOT).as_posix()
        return any(name.startswith("test_") and f"{place}::{name}" not in NIGHTLY for name in names)

    rows = re.findall(r"^\| (G\d+) (.*)$", (ROOT / "docs" / "GUARANTEES.md").read_text(), re.MULTILINE)
    named = {number: {paths[name] for name in re.findall(r"test_\w+\.py", text)} for number, text in rows}
    assert [number for number, files in named.items() if files and not any(map(is_run, files))] == []
