"""What the page says of versions is shown by tests that exist."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.compatibility import FEATURES, PAIR, pairs
from tests.support.nightly import is_nightly
from tools import compatibility_page

ROOT = Path(__file__).parent.parent


def test_the_page() -> None:
    """`python -m tools.compatibility_page` writes it."""
    assert compatibility_page.PAGE.read_text() == compatibility_page.page()


def test_each_cell_is_shown_by_a_test() -> None:
    """Of its name, in a file that names the versions."""
    for test, versions in [
        (PAIR, set()),
        *((each.test, {v for pair in each.shown for v in pair}) for each in FEATURES),
    ]:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text()
        names = {each.name for each in ast.walk(ast.parse(text)) if isinstance(each, ast.AsyncFunctionDef)}
        assert name in names, test
        known = text + (ROOT / "tests" / "support" / "scene.py").read_text()
        assert {version for version in versions if f'"{version}"' not in known} == set(), test


def test_the_scene_of_every_pair_is_not_forgotten() -> None:
    assert len(pairs()) == 16
    assert is_nightly(PAIR)
