"""Which topics are copied, and under which name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigError
from replicator.routing.selector import (
    MAX_TOPIC,
    TopicSelector,
    compile_patterns,
    refuse_template,
    refused_name,
    rename,
    rename_retries,
)

LEGAL = st.text(
    st.sampled_from("abcXYZ0189%|_-"),
    min_size=1,
    max_size=20,
)


def selector(*include: str, exclude: tuple[str, ...] = ()) -> TopicSelector:
    return TopicSelector.of(include, exclude)


@pytest.mark.parametrize(
    "topic",
    [
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "OFFSET_MOVED_EVENT",
        "SELF_TEST_TOPIC",
        "BenchmarkTest",
        "rmq_sys_wheel_timer",
        "rmq_sys_REVIVE_LOG_east",
        "%RETRY%group",
        "%DLQ%group",
        "%LMQ%x",
        "replicator_sys_dead_letter",
        "east",
        "east-a",
        "east_REPLY_TOPIC",
    ],
)
def test_system_topics_are_never_copied(topic: str) -> None:
    """Not by a pattern for all, and not by their own names."""
    system = {"east", "east-a"}
    assert not selector(".*").selects(topic, system=system)
    assert not selector(topic).selects(topic, system=system)


@pytest.mark.parametrize("topic", ["easter", "MY_TBW102", "rmq-orders", "west_REPLY_TOPIC", "sys", "DLQ%x"])
def test_similar_names_are_copied(topic: str) -> None:
    """A whole name or a prefix makes a system topic, not a part."""
    assert selector(".*").selects(topic, system={"east", "east-a"})


def test_an_exclusion_wins() -> None:
    """Over a pattern and over the very same name."""
    chosen = selector("order.*", "audit", exclude=("order-test", "aud.*"))
    assert chosen.selects("orders")
    assert not chosen.selects("order-test")
    assert not chosen.selects("audit")
    assert not chosen.selects("other")


def test_patterns_match_whole_names() -> None:
    """A name is not a prefix."""
    assert not selector("order").selects("orders")
    assert not selector("rder.*").selects("orders")
    assert selector("[a-c]x?").selects("bx")


@given(LEGAL.filter(lambda name: "|" not in name), LEGAL)
def test_a_plain_name_selects_itself_only(name: str, other: str) -> None:
    """Letters, digits, %, _ and - have no second meaning."""
    patterns = compile_patterns("topics", [name])
    assert patterns.match(name)
    assert patterns.match(other) == (name == other)


def test_a_bar_means_either_or_and_can_be_escaped() -> None:
    """`|` may stand in a topic's name too."""
    either = selector("a|b")
    assert either.selects("a")
    assert either.selects("b")
    assert not either.selects("a|b")
    assert selector(r"a\|b").selects("a|b")


def test_percent_signs_are_themselves() -> None:
    """In names and in expressions."""
    assert selector("50%off").selects("50%off")
    assert selector("50%.*").selects("50%off")


def test_a_broken_expression_names_field_value_and_way_out() -> None:
    """Not a traceback."""
    with pytest.raises(ConfigError, match=r"topics: '\(x' is an invalid regular expression") as caught:
        compile_patterns("topics", ["ok", "(x"])
    assert caught.value.hint


def test_a_template_names_the_topic() -> None:
    """With the topic and the ids of the clusters."""
    assert rename("{topic}", "T", source="s", target="t") == "T"
    assert rename("{source}_{topic}-{target}", "T", source="s", target="t") == "s_T-t"


@pytest.mark.parametrize(
    ("template", "source"), [("{topic}.x", "s"), ("{source}{topic}", "a.b"), ("x" * MAX_TOPIC + "{topic}", "s")]
)
def test_a_template_that_fits_no_topic_is_refused(template: str, source: str) -> None:
    """Dots, and more than 127 characters."""
    with pytest.raises(ConfigError, match=r"brokers refuse the name .* at most 127") as caught:
        refuse_template(template, source=source, target="t")
    assert caught.value.hint


def test_a_template_that_fits_a_topic_is_none_to_refuse() -> None:
    refuse_template("x" * (MAX_TOPIC - 1) + "{topic}", source="s", target="t")


@pytest.mark.parametrize(("name", "possible"), [("x" * MAX_TOPIC, True), ("x" * 128, False), ("a.b", False)])
def test_the_longest_name_is_possible(name: str, *, possible: bool) -> None:
    """127 characters."""
    assert (refused_name(name) == "") is possible


@pytest.mark.parametrize(
    ("topic", "copied"),
    [
        ("%RETRY%g", True),
        ("%RETRY%g_a_b", True),  # of POP consumers
        ("%RETRY%g+a_b", True),
        ("%RETRY%h", False),
        ("%RETRY%h_a_b", False),
        ("%RETRY%h+a_b", False),
        ("%RETRY%g_other", False),  # of a topic that is not copied
        ("%RETRY%g+other", False),
        ("%RETRY%g_a_bc", False),
    ],
)
def test_retry_topics_of_groups_and_of_their_pop_consumers(topic: str, *, copied: bool) -> None:
    chosen = TopicSelector.of(("a_b",), (), retries=lambda group: group == "g")
    assert chosen.selects(topic) == copied


def test_dead_letter_topics_are_those_of_groups() -> None:
    """Whatever `topics` selects."""
    chosen = TopicSelector.of(("t",), (), dead_letters=lambda group: group == "g")
    assert [topic for topic in ("%DLQ%g", "%DLQ%h", "%RETRY%g", "%DLQ%t", "t") if chosen.selects(topic)] == [
        "%DLQ%g",
        "t",
    ]
    assert not TopicSelector.of((".*",), ()).selects("%DLQ%g")
    left_out = TopicSelector.of((".*",), ("%DLQ%g",), dead_letters=lambda group: True)
    assert [topic for topic in ("%DLQ%g", "%DLQ%h") if left_out.selects(topic)] == ["%DLQ%h"]


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("%RETRY%g", "%RETRY%g"),
        ("%RETRY%g+a_b", "%RETRY%g_c-a_b"),
        ("%RETRY%g_a_b", "%RETRY%g_c-a_b"),
        ("%RETRY%g_b", "%RETRY%g_c-b"),
        ("%RETRY%g+gone", "%RETRY%g_gone"),
        ("%RETRY%g_gone", "%RETRY%g_gone"),
    ],
)
def test_names_of_retry_topics_at_the_target(name: str, there: str) -> None:
    """That of the topic is in them; the newer kind, which clients cannot send to, becomes the older one."""
    assert rename_retries(name, {"a_b": "c-a_b", "b": "c-b"}) == there
