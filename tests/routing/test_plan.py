"""Plans: what the target needs before the first message flows, from what both clusters have."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replicator.client.topics import TopicConfig
from replicator.errors import ConfigError
from replicator.routing.options import Identity
from replicator.routing.plan import TopicPlan, Topics, chosen_names, plan_topics, unsupported
from replicator.routing.queue_map import Queue, QueueMap
from replicator.routing.selector import TopicSelector, compile_patterns

IDENTITY = Identity("east", "west")


def topic(name: str = "T", read: int = 4, write: int | None = None, **more: object) -> TopicConfig:
    return TopicConfig(name=name, read_queues=read, write_queues=read if write is None else write, **more)  # type: ignore[arg-type]


def plan(
    source: Topics,
    target: Topics,
    known: dict[str, QueueMap] | None = None,
    *,
    topics: str = ".*",
    template: str = "{topic}",
) -> list[TopicPlan]:
    selector = TopicSelector(compile_patterns("topics", [topics]))
    names = chosen_names(source, selector, template, IDENTITY, system=["east", "a"])
    return plan_topics(source, target, known or {}, names)


def test_a_missing_topic_is_created_like_the_source() -> None:
    """With its attributes, kind and flags, and open for reading and writing."""
    model = topic(perm=4, order=True, sys_flag=1, attributes={"message.type": "FIFO"})
    (made,) = plan({"a": {"T": model}}, {"x": {}}, template="{source}_{topic}")
    assert made.target_topic == "east_T"
    assert made.writes == [
        ("x", topic("east_T", perm=6, order=True, sys_flag=1, attributes={"message.type": "FIFO"}))
    ]
    assert made.queue_map == {Queue("a", i): Queue("x", i) for i in range(4)}


def test_queues_of_a_forgotten_broker_keep_their_places() -> None:
    """They are not copied; nothing else goes where they went, and the target keeps its queues."""
    known = {Queue("a", 0): Queue("x", 0), Queue("b", 0): Queue("x", 1)}
    (made,) = plan_topics(
        {"a": {"T": topic(read=2)}},
        {"x": {}},
        {"T": known},
        {"T": "T"},
        forgotten={"b"},
        left={"T": [Queue("x", 2)]},
    )
    assert made.queue_map == {Queue("a", 0): Queue("x", 0), Queue("a", 1): Queue("x", 3)}
    assert [(broker, config.read_queues) for broker, config in made.writes] == [("x", 4)]


def test_a_topic_that_fits_is_left_alone() -> None:
    """Also when it has more queues, or other settings, than the source."""
    assert plan({"a": {"T": topic()}}, {"x": {"T": topic()}})[0].writes == []
    assert plan({"a": {"T": topic()}}, {"x": {"T": topic(read=9, perm=4)}})[0].writes == []


@pytest.mark.parametrize(("read", "write", "expected"), [(2, 2, (6, 6)), (9, 2, (9, 6)), (2, 9, (6, 9))])
def test_queue_numbers_grow_and_never_shrink(read: int, write: int, expected: tuple[int, int]) -> None:
    """Reading and writing ones each for itself; nothing else is changed."""
    existing = topic(read=read, write=write, perm=6, order=True, attributes={"a": "b"})
    (made,) = plan({"a": {"T": topic(read=6)}}, {"x": {"T": existing}})
    assert made.writes == [("x", topic(read=expected[0], write=expected[1], perm=6, order=True))]


def test_all_queues_of_the_source_that_may_hold_messages_are_mapped() -> None:
    """While a topic shrinks it has more queues to read than to write."""
    (made,) = plan({"a": {"T": topic(read=5, write=2)}}, {"x": {}})
    assert len(made.queue_map) == 5


def test_several_source_brokers_need_the_sum_on_one_target_broker() -> None:
    """Only brokers that have the topic count."""
    source = {"a": {"T": topic(read=2)}, "b": {"T": topic(read=3)}, "c": {"other": topic("other")}}
    made = {each.topic: each for each in plan(source, {"x": {}})}
    assert made["T"].writes == [("x", topic(read=5))]
    assert len(set(made["T"].queue_map.values())) == 5


def test_known_maps_are_extended_only() -> None:
    """A mapped queue stays where it is, even if it could get its own id now."""
    known = {"T": {Queue("a", 0): Queue("x", 7)}}
    (made,) = plan({"a": {"T": topic(read=2)}}, {"x": {}}, dict(known))
    assert made.queue_map == {Queue("a", 0): Queue("x", 7), Queue("a", 1): Queue("x", 1)}
    assert made.writes == [("x", topic(read=8))]


def test_a_target_broker_that_is_away_waits() -> None:
    """Its queues stay mapped; nothing is written to it, nothing moves."""
    known = {"T": {Queue("a", 0): Queue("gone", 0)}}
    (made,) = plan({"a": {"T": topic(read=1)}}, {"x": {}}, dict(known))
    assert made.queue_map == known["T"]
    assert made.writes == []


def test_plans_are_sorted_and_selected() -> None:
    """System topics are no part of it."""
    source = {"a": {name: topic(name) for name in ("z", "b", "east", "a", "TBW102", "no")}}
    assert [each.topic for each in plan(source, {"x": {}}, topics="z|b|east|a|TBW102")] == ["b", "z"]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"queue.type": "BatchCQ"}, "BatchCQ"),
        ({"cleanup.policy": "COMPACTION"}, "compacted"),
    ],
)
def test_what_cannot_be_copied_says_why(attributes: dict[str, str], words: str) -> None:
    """If one source broker has it so; and then nothing is written."""
    odd = topic(attributes=attributes)
    assert words in unsupported(odd)
    (made,) = plan({"a": {"T": topic()}, "b": {"T": odd}}, {"x": {}})
    assert words in made.problem
    assert made.writes == ()


@pytest.mark.parametrize("side", ["source", "target"])
def test_static_topics_are_refused(side: str) -> None:
    """On either side: their queue numbers and offsets are not those of a broker."""
    plain, static = {"T": topic()}, {"T": topic(static=True)}
    source, target = ({"a": plain, "b": static}, {"x": {}}) if side == "source" else ({"a": plain}, {"x": static})
    (made,) = plan(source, target)
    assert "static topic" in made.problem
    assert made.problem.startswith("at the target") == (side == "target")
    assert made.writes == ()


PRIORITY = {"message.type": "PRIORITY"}


def test_priorities_are_copied_where_queues_keep_their_numbers() -> None:
    """One target broker for each source broker."""
    model = topic(attributes=PRIORITY)
    (made,) = plan({"a": {"T": model}, "b": {"T": model}}, {"x": {}, "y": {}})
    assert made.problem == ""
    assert [(broker, config.attributes) for broker, config in made.writes] == [("x", PRIORITY), ("y", PRIORITY)]
    assert all(queue.queue_id == target.queue_id for queue, target in made.queue_map.items())


def test_priorities_that_would_be_moved_are_refused() -> None:
    """Two source brokers share a target broker: it says which queue would get another level."""
    model = topic(attributes=PRIORITY)
    (made,) = plan({"a": {"T": model}, "b": {"T": model}}, {"x": {}})
    assert "message.type=PRIORITY" in made.problem
    assert "b/0 would be x/4" in made.problem
    assert made.writes == ()
    assert made.queue_map == {}


def test_lite_topics_need_light_queues_and_their_names() -> None:
    """One broker of the target has none; it is asked for where it gets a queue."""
    attributes = {"message.type": "LITE"}
    source: Topics = {"a": {"T": topic(read=1, attributes=attributes)}}
    for broker, words in (("x", "on target broker x: set enableLmq"), ("y", "")):
        target: Topics = {"x": {}, "y": {}}
        known: dict[str, QueueMap] = {"T": {Queue("a", 0): Queue(broker, 0)}}
        (made,) = plan_topics(source, target, known, {"T": "T"}, no_light_queues=["x"])
        assert (words in made.problem, bool(made.writes)) == (True, not words), made
    (made,) = plan(source, {"x": {}}, template="{source}_{topic}")
    assert "must keep its name" in made.problem
    (made,) = plan_topics({"a": {"T": topic()}}, {"x": {}}, {}, {"T": "T"}, no_light_queues=["x"])
    assert not made.problem, "it is not a lite topic"


def test_priorities_that_were_moved_before_are_refused() -> None:
    """A map made before stays as it is, and is not taken for one that keeps levels."""
    known = {"T": {Queue("a", 0): Queue("x", 7)}}
    (made,) = plan({"a": {"T": topic(read=1, attributes=PRIORITY)}}, {"x": {}}, dict(known))
    assert "a/0 would be x/7" in made.problem


@pytest.mark.parametrize(
    "attributes",
    [{}, {"queue.type": "SimpleCQ"}, {"cleanup.policy": "DELETE"}, {"message.type": "FIFO"}, PRIORITY],
)
def test_ordinary_topics_can_be_copied(attributes: dict[str, str]) -> None:
    """No reason against it."""
    assert unsupported(topic(attributes=attributes)) == ""


@pytest.mark.parametrize("source", [{"T": topic()}, {}], ids=["a topic", "none yet"])
def test_a_template_that_fits_no_topic_is_a_mistake_of_the_settings(source: dict[str, TopicConfig]) -> None:
    """Found while planning, before anything is written."""
    with pytest.raises(ConfigError, match="brokers refuse"):
        plan({"a": source}, {"x": {}}, template="{topic}.copy")


def test_a_topic_whose_name_would_be_too_long_keeps_no_other_from_being_copied() -> None:
    """It may turn up at any time, and what is known of it is kept."""
    long = "x" * 126
    source = {"a": {each: topic(each, 1) for each in ("T", long)}}
    known: dict[str, QueueMap] = {long: {Queue("a", 0): Queue("x", 0)}}
    fine, odd = plan(source, {"x": {}}, known, template="dr-{topic}")
    assert (fine.target_topic, fine.problem, len(fine.writes)) == ("dr-T", "", 1)
    assert (odd.topic, odd.writes, odd.queue_map) == (long, (), known[long])
    assert f"brokers refuse the name 'dr-{long}': at most 127 letters" in odd.problem


def test_topics_of_groups_may_have_longer_names() -> None:
    """Brokers make them by themselves."""
    name = "%RETRY%" + "g" * 200
    (made,) = plan_topics({"a": {name: topic(name)}}, {"x": {}}, {}, {name: name})
    assert made.problem == ""


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_with_more_queues_than_any_has_is_a_problem(side: str) -> None:
    """It takes neither memory nor time, and the others are copied."""
    huge, fine = {"T": topic(read=2**31 - 1), "U": topic("U")}, {"U": topic("U")}
    source = {"a": {"T": topic(), "U": topic("U")} if side == "target" else huge}
    bad, good = plan(source, {"x": huge if side == "target" else fine})
    assert "2,147,483,647 queues on a broker, and up to 16,384 can be copied" in bad.problem
    assert bad.queue_map == {}
    assert (good.topic, good.problem, len(good.queue_map)) == ("U", "", 4)
    assert not unsupported(topic(read=16_384))


def test_more_queues_than_a_topic_may_have_on_one_broker_are_a_problem() -> None:
    """Three brokers' queues for one broker: nothing is made there, and what was copied before stays known."""
    source = {broker: {"T": topic(read=6_000), "U": topic("U")} for broker in "abc"}
    known: dict[str, QueueMap] = {"T": {Queue("a", 0): Queue("x", 0)}}
    bad, good = plan(source, {"x": {}}, known)
    assert bad.problem == "it would have 18,000 queues on target broker x, and up to 16,384 can be copied"
    assert (bad.queue_map, bad.writes) == (known["T"], ())
    assert (good.topic, good.problem, len(good.queue_map)) == ("U", "", 12)


SIDE = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 5), min_size=1, max_size=3)


@given(SIDE, st.dictionaries(st.sampled_from("abwxyz"), st.integers(0, 5), min_size=1, max_size=3))
@example({"a": 4, "b": 4}, {"x": 0})
@example({"a": 1, "b": 2, "c": 2}, {"a": 0, "w": 0, "x": 4})
def test_two_ways_do_not_widen_each_other_for_ever(one: dict[str, int], other: dict[str, int]) -> None:
    """Whatever brokers and queues they have: both come to have equally many, and then nothing is written."""
    sides: list[dict[str, dict[str, TopicConfig]]] = [
        {broker: {"T": topic(read=count)} if count else {} for broker, count in side.items()}
        for side in (one, other)
    ]
    known: list[dict[str, QueueMap]] = [{}, {}]
    written = []
    for turn in range(12):
        source, target = sides[turn % 2], sides[1 - turn % 2]
        made = plan(source, target, known[turn % 2])
        written.append(sum(len(each.writes) for each in made))
        for each in made:
            known[turn % 2][each.topic] = each.queue_map
            for broker, config in each.writes:
                target[broker]["T"] = config
    assert written[-4:] == [0, 0, 0, 0]
    assert len({sum(held["T"].queues for held in side.values() if "T" in held) for side in sides}) == 1


def test_topics_of_one_name_at_the_target_have_queues_of_their_own() -> None:
    """Retry topics of POP consumers, of both kinds; whichever was there first, and however often it is planned."""
    older, newer = "%RETRY%g_T", "%RETRY%g+T"
    there: Topics = {"x": {}}
    names = {newer: older, older: older}
    source = {"a": {older: topic(older, read=1), newer: topic(newer, read=1)}}
    alone = plan_topics({"a": {older: topic(older, read=1)}}, there, {}, {older: older})
    assert alone[0].queue_map == {Queue("a", 0): Queue("x", 0)}
    known: dict[str, QueueMap] = {older: alone[0].queue_map}
    for _ in range(2):
        first, second = plan_topics(source, there, known, names)
        assert (first.topic, first.queue_map) == (newer, {Queue("a", 0): Queue("x", 1)})
        assert second.queue_map == known[older]
        known = {each.topic: each.queue_map for each in (first, second)}
    assert [(broker, config.read_queues) for broker, config in first.writes] == [("x", 2)]
