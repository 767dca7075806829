"""The table of a queue's steps: complete, reachable, and no way to copy around a check."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ReplicatorError
from replicator.routing import faults
from replicator.routing.queue_steps import FINAL, TRANSITIONS, Event, Step, Transition, event_of
from tools import states_page

EVENTS = {step: [event for at, event in TRANSITIONS if at is step] for step in Step}

#: What makes the target's end uncertain, and what makes the source so.
TARGET_UNCERTAIN = {Event.OUTCOME_UNKNOWN, Event.STORED_ELSEWHERE, Event.TARGET_CHANGED}
SOURCE_UNCERTAIN = {Event.SOURCE_LOST, Event.UNREACHABLE, Event.SOURCE_LOSS}

#: What cannot end a step, and why; whatever else can is in the table.
_SENDS = "only copying sends"
_PULLS = "only copying pulls towards an end"
_LEASE = "only copying asks for the lease: a check changes nothing at the target"
_LOOKS = "the source is not read here: where it is asked what copies have left out, its errors are logged"
_POLICY = "no policy decides here"
IMPOSSIBLE = {
    (Step.CHECK_TARGET, Event.ENDED): _PULLS,
    (Step.CHECK_TARGET, Event.OUTCOME_UNKNOWN): _SENDS,
    (Step.CHECK_TARGET, Event.STORED_ELSEWHERE): _SENDS,
    (Step.CHECK_TARGET, Event.SOURCE_LOST): _LOOKS,
    (Step.CHECK_TARGET, Event.SOURCE_LOSS): _LOOKS,
    (Step.CHECK_TARGET, Event.LEASE_LOST): _LEASE,
    (Step.CHECK_SOURCE, Event.ENDED): _PULLS,
    (Step.CHECK_SOURCE, Event.OUTCOME_UNKNOWN): _SENDS,
    (Step.CHECK_SOURCE, Event.STORED_ELSEWHERE): _SENDS,
    (Step.CHECK_SOURCE, Event.TARGET_CHANGED): "of the target only its first copy is read",
    (Step.CHECK_SOURCE, Event.TARGET_BLOCKED): "of the target only its first copy is read",
    (Step.CHECK_SOURCE, Event.FAILED): _POLICY,
    (Step.CHECK_SOURCE, Event.LEASE_LOST): _LEASE,
    (Step.COPY, Event.DONE): "it ends when it is drained, or at its end",
    (Step.SKIP_LOSS, Event.ENDED): _PULLS,
    (Step.SKIP_LOSS, Event.OUTCOME_UNKNOWN): _SENDS,
    (Step.SKIP_LOSS, Event.STORED_ELSEWHERE): _SENDS,
    (Step.SKIP_LOSS, Event.TARGET_CHANGED): "of the target single copies are read, over any connection",
    (Step.SKIP_LOSS, Event.TARGET_BLOCKED): "of the target single copies are read",
    (Step.SKIP_LOSS, Event.SOURCE_LOST): "single messages are asked for: what goes wrong then is unreachable",
    (Step.SKIP_LOSS, Event.FAILED): "its policy, on_gap=fail, raises the loss itself",
    (Step.SKIP_LOSS, Event.LEASE_LOST): _LEASE,
}


@st.composite
def walks(draw: st.DrawFn) -> Sequence[tuple[Step, Event, Step]]:
    """A way through the table, from the start on, to an end or thirty steps far."""
    step = Step.CHECK_TARGET
    walk: list[tuple[Step, Event, Step]] = []
    while step not in FINAL and len(walk) < 30:
        event = draw(st.sampled_from(EVENTS[step]))
        to = TRANSITIONS[step, event].to
        walk.append((step, event, to))
        step = to
    return walk


@given(walks())
def test_nothing_is_copied_that_was_not_checked(walk: Sequence[tuple[Step, Event, Step]]) -> None:
    """Each side is checked after whatever made it uncertain, and both at the start."""
    target = source = False
    for step, event, to in walk:
        if step is Step.COPY:
            assert target
            assert source
        if event is Event.DONE and step is Step.CHECK_TARGET:
            target = True
        if event is Event.DONE and step is Step.CHECK_SOURCE:
            source = True
        if event in TARGET_UNCERTAIN:
            target = False
        if event in SOURCE_UNCERTAIN:
            source = False
        if to is Step.CHECK_TARGET:
            source = source and step is Step.COPY  # the source's connection lives on


@given(walks())
def test_a_clean_end_is_one_after_which_nothing_can_be_stored(walk: Sequence[tuple[Step, Event, Step]]) -> None:
    """No outcome is unknown there."""
    unknown = False
    for step, event, to in walk:
        if event is Event.OUTCOME_UNKNOWN:
            unknown = True
        if step is Step.CHECK_TARGET and event is Event.DONE:
            unknown = False
        if to is Step.STOPPED and TRANSITIONS[step, event].clean:
            assert not unknown


def test_every_step_is_reached_and_left() -> None:
    """From the start, and to an end."""
    reached = {Step.CHECK_TARGET}
    while True:
        more = {to.to for (step, _), to in TRANSITIONS.items() if step in reached} | reached
        if more == reached:
            break
        reached = more
    assert reached == set(Step)
    assert all(EVENTS[step] for step in Step if step not in FINAL)
    assert not any(EVENTS[step] for step in FINAL)


def test_what_stops_it_is_allowed_in_every_step() -> None:
    """A worker may be drained at any time."""
    assert all(Event.DRAINED in EVENTS[step] for step in Step if step not in FINAL)


@pytest.mark.parametrize("kind", [getattr(faults, name) for name in faults.__all__ if name[0].isupper()])
def test_every_fault_is_an_event(kind: type[ReplicatorError]) -> None:
    """Except those that sink tasks settle themselves."""
    if kind in (faults.MessageRejected, faults.TransformRefused):
        return
    made = kind.__new__(kind)
    event = event_of(made)
    assert event is not None
    assert any(event is each for _, each in TRANSITIONS)


def test_every_event_of_every_step_is_in_the_table_or_cannot_be() -> None:
    """A pair that is in neither would end the queue with a KeyError."""
    pairs = {(step, event) for step in Step if step not in FINAL for event in Event}
    assert TRANSITIONS.keys() | IMPOSSIBLE.keys() == pairs
    assert TRANSITIONS.keys() & IMPOSSIBLE.keys() == set()


@pytest.mark.parametrize("step", [step for step in Step if step not in FINAL])
def test_no_answer_of_a_broker_is_missing_in_a_step(step: Step) -> None:
    """Each step asks one, and may be ended from outside."""
    assert {Event.UNREACHABLE, Event.DRAINED} <= {*EVENTS[step]}


def test_a_bug_is_no_event() -> None:
    """It ends the task with its traceback."""
    assert event_of(ReplicatorError("a bug")) is None


def test_the_page_is_made_from_the_table() -> None:
    """`python -m tools.states_page` writes it."""
    assert states_page.PAGE.read_text() == states_page.page()


def test_the_page_says_all_that_the_table_does() -> None:
    """Each field of a transition has a column, and each step and event says what it is."""
    assert {*states_page.documented(Step)} == {*Step}
    assert {*states_page.documented(Event)} == {*Event}
    (head,) = (line for line in states_page.page().splitlines() if line.startswith("| step | event |"))
    assert head.count("|") - 1 == 2 + len(Transition._fields)
    assert {*states_page.fields()} == {*Transition._fields}
