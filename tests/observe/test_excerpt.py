"""A line names a few and counts the others."""

from __future__ import annotations

import pytest

from replicator.observe.excerpt import excerpt


@pytest.mark.parametrize(
    ("items", "text"),
    [([], ""), (["a"], "a"), (["a", "b", "c"], "a, b, c"), (["a", "b", "c", "d"], "a, b, c and 1 more")],
)
def test_a_few_are_named_and_the_others_counted(items: list[str], text: str) -> None:
    assert excerpt(items, few=3) == text


def test_five_by_default() -> None:
    assert excerpt(str(i) for i in range(1000)) == "0, 1, 2, 3, 4 and 995 more"
