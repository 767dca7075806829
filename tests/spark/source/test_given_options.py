"""Options as they are typed: their names, spans of time, numbers of queues."""

from __future__ import annotations

import pytest

from replicator.errors import ConfigError
from replicator.routing.message_queue import MessageQueue
from replicator.spark.source.given_options import EARLIEST, LATEST, GivenOptions

KNOWN = (
    "topic",
    "topicsPattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "wait",
)
DIGITS = pytest.param("9" * 5000, id="more digits than Python reads")


def given(**options: str) -> GivenOptions:
    return GivenOptions(options, KNOWN)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250", 0.25),
        ("250ms", 0.25),
        ("90s", 90.0),
        (" 15 M ", 900.0),
        ("2min", 120.0),
        ("1h", 3600.0),
        ("1d", 86400.0),
    ],
)
def test_spans_of_time(text: str, seconds: float) -> None:
    """As Spark writes them."""
    assert given(wait=text).seconds("wait") == seconds


@pytest.mark.parametrize("text", ["", "m", "-1s", "1.5h", "3 weeks", DIGITS])
def test_what_is_no_span_of_time(text: str) -> None:
    with pytest.raises(ConfigError, match=f"wait = '{text}': give a number and one of ms, s"):
        given(wait=text).seconds("wait")


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "\x1c1", "\u0664", DIGITS])
def test_what_is_no_whole_number(text: str) -> None:
    """What Python does not take for one either, in as many digits as it may have."""
    with pytest.raises(ConfigError, match="give a whole number, 0 or more"):
        given(startingTimestamp=text).whole("startingTimestamp", 0)
    assert given(startingTimestamp=" 17 ").whole("startingTimestamp", 0) == 17


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"a":' * 100_000, id="deeper"),
        "{",
        "[]",
        '{"t":{"b":{"x":1}}}',
    ],
)
def test_json_that_names_no_queues(text: str) -> None:
    """Nor is it read, however deep it is."""
    with pytest.raises(ConfigError, match="give earliest, latest, or JSON like"):
        given(startingOffsets=text).bound("starting", EARLIEST)


def test_names_are_found_in_any_case() -> None:
    """By their aliases too, and once only; what is nearest to a wrong one is named as it is written."""
    assert given(SUBSCRIBE="a")["topic"] == "a"
    with pytest.raises(ConfigError, match="topic is given twice"):
        given(subscribe="a", topics="b")
    with pytest.raises(ConfigError, match="did you mean startingOffsets"):
        given(startingoffset="latest")


def test_ends_of_a_read() -> None:
    """Of all queues, or of some; the others have the default."""
    first, other = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
    assert given().bound("starting", LATEST).offset(first) == LATEST
    assert given(startingOffsets=" Earliest").bound("starting", LATEST).offset(first) == EARLIEST
    some = given(startingOffsets='{"t":{"b":{"0":17}}}').bound("starting", EARLIEST)
    assert (some.offset(first), some.offset(other), some.by_time) == (17, EARLIEST, False)
    since = given(startingTimestamp="5").bound("starting", EARLIEST)
    assert (since.time(first), since.by_time) == (5, True)
    some = given(startingOffsetsByTimestamp='{"t":{"b":{"0":17}}}').bound("starting", EARLIEST)
    assert (some.time(first), some.time(other), some.offset(other), some.by_time) == (17, None, EARLIEST, True)


def test_numbers_of_queues() -> None:
    """By topic and broker."""
    assert given().queues("assign") is None
    assert given(assign='{"t":{"b":[0,2]}}').queues("assign") == {"t": {"b": frozenset({0, 2})}}
    for wrong in ("[]", "{", '{"t":[0]}', '{"t":{"b":{"0":1}}}', '{"t":{"b":[-1]}}', '{"t":{"b":["0"]}}'):
        with pytest.raises(ConfigError, match="give JSON like"):
            given(assign=wrong).queues("assign")
