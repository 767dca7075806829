"""Patterns that others have written end nothing, and keep nothing busy."""

from __future__ import annotations

import time

import pytest

from replicator.errors import ConfigError
from replicator.settings import RouteSettings
from replicator.settings.name_patterns import NamePatterns, is_name, name_patterns

#: Exponential in `regex` too, which is quick with many others, such as (a+)+b.
SLOW = ["(a|aa)+[.]", "(a|a)+[bc]"]


def test_names_and_expressions() -> None:
    patterns = name_patterns(("orders", "payments-.*", "a|b", "%RETRY%g"))
    found = [
        name
        for name in ("orders", "payments-eu", "payments", "a", "a|b", "%RETRY%g", "order")
        if patterns.match(name)
    ]
    assert found == ["orders", "payments-eu", "a", "%RETRY%g"]
    assert not name_patterns(()).match("orders")
    assert [is_name(text) for text in ("orders", "%a-b_1", "a|b", "a.b", "")] == [True, True, False, False, False]


@pytest.mark.parametrize("text", [".*", ".+"])
def test_what_matches_every_name(text: str) -> None:
    assert name_patterns(("orders", text)).match("anything|else")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(x", "missing"),
        ("a{99999999999999999999}", "more than 100,000 characters when written out"),
        ("((a{1000}){1000}){1000}", "more than 100,000 characters when written out"),
        ("(?:a{1001}){1,100}", "more than 100,000 characters when written out"),
        ("(" * 400 + ")" * 400, "nested too deep"),
        ("a." * 5001, "10,002 characters"),
    ],
)
def test_what_cannot_be_compiled(text: str, reason: str) -> None:
    """It is refused in words, at once, and in little memory."""
    with pytest.raises(ValueError, match=reason) as caught:
        name_patterns((text,))
    assert len(str(caught.value)) < 250


def test_at_most_so_many_expressions() -> None:
    NamePatterns([f"a{number}.*" for number in range(1000)] + [f"name-{number}" for number in range(5000)])
    with pytest.raises(ValueError, match="1,001 regular expressions, and at most 1,000"):
        NamePatterns([f"a{number}.*" for number in range(1001)])


@pytest.mark.parametrize("text", SLOW)
def test_an_expression_that_takes_long_is_refused(text: str) -> None:
    """In little CPU, however many names there are; `re` would take years for one."""
    patterns = NamePatterns([text])
    began = time.thread_time()
    for number in range(200):
        with pytest.raises(ConfigError, match="takes too long"):
            patterns.match("a" * 100 + str(number % 10))
    assert time.thread_time() - began < 5.0


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "|".join(f"{kind}-[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}" for kind in ("orders", "bills", "stock")),
            "bills-2026-11-29",
        ),
        ("[a-z]{1,32}_[a-z]{1,32}_[a-z]{1,32}", "a_b_c"),
        ("[0-9]{8}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "20261129-0123abcd-0123-0123-0123-0123456789ab"),
        (
            "(" + "|".join(f"a-name-of-some-length-{number}" for number in range(60)) + ")",
            "a-name-of-some-length-7",
        ),
        (r"[]{4}]{2}\{3}", "]}{3}"),
    ],
)
def test_what_people_write_is_taken(text: str, name: str) -> None:
    assert name_patterns((text,)).match(name)


def test_long_alternations_are_matched_with_many_topics() -> None:
    words = "|".join(f"word{number:04d}" for number in range(90))
    patterns = NamePatterns([f"(?i).*({words}).*"])
    assert sum(patterns.match(f"{'x' * 100}-{number}") for number in range(6_000)) == 0


def test_usual_ones_never_are() -> None:
    patterns = NamePatterns(["orders-.*", "[a-z]+-(eu|us)-[0-9]{1,4}", "(?!west-).*-eu"])
    assert sum(patterns.match(f"orders{number}-eu-{number}") for number in range(20_000)) == 0
    assert sum(patterns.match(f"orders-eu-{number}") for number in range(20_000)) == 20_000


@pytest.mark.parametrize("text", SLOW)
def test_settings_that_would_take_long_are_refused(text: str) -> None:
    """Whoever may only read can have settings validated."""
    with pytest.raises(ValueError, match="takes too long"):
        RouteSettings(topics=["a" * 100], exclude_topics=[text])
