"""Options of a read as a whole: what would read nothing, and what a value of zero means."""

from __future__ import annotations

import json

import pytest

from replicator.errors import ConfigError
from replicator.spark.source.options import ReadOptions

GIVEN = {"nameServer": "a:9876", "topic": "t"}


def given(offset: int) -> str:
    return json.dumps({"t": {"a": {"0": 5, "1": offset}}})


def test_a_micro_batch_may_wait_for_no_time() -> None:
    """Not for as long as it does where nothing is said."""
    least = {**GIVEN, "minOffsetsPerTrigger": "10"}
    assert ReadOptions.of({**least, "maxTriggerDelay": "0s"}, streaming=True).max_delay == 0.0
    assert ReadOptions.of(least, streaming=True).max_delay == 900.0


@pytest.mark.parametrize(
    ("option", "offset", "word"), [("startingOffsets", -1, "latest"), ("endingOffsets", -2, "earliest")]
)
def test_nothing_is_read_by_no_other_name(option: str, offset: int, word: str) -> None:
    """As the words are, their numbers are refused for a queue; the other number is what is read anyway."""
    with pytest.raises(ConfigError, match=f"{option} = '{word}': nothing would be read"):
        ReadOptions.of({**GIVEN, option: word})
    with pytest.raises(
        ConfigError, match=rf"{option} has {offset}, {word}, for t/a/1: nothing of it would be read"
    ):
        ReadOptions.of({**GIVEN, option: given(offset)})
    ReadOptions.of({**GIVEN, option: given(-3 - offset)})


def test_a_stream_may_begin_at_the_end_of_a_queue() -> None:
    assert ReadOptions.of({**GIVEN, "startingOffsets": '{"t":{"a":{"0":-1}}}'}, streaming=True).start.offsets
