"""Who looks at a page asks no broker that was asked seconds ago, and sees how old the answer is."""

from __future__ import annotations

import asyncio
import time

import pytest

from replicator.admin import kept_answers as module
from replicator.admin.kept_answers import Kept, KeptAnswers
from replicator.errors import ReplicatorError
from tests.support.worker import until


class _Clusters:
    def __init__(self) -> None:
        self.asked = 0
        self.seconds = 0.0
        self.error: Exception | None = None

    async def ask(self, name: str) -> str:
        self.asked += 1
        number = self.asked
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return f"{name} {number}"


async def test_many_who_look_at_once_ask_once() -> None:
    clusters = _Clusters()
    clusters.seconds = 0.05
    answers = KeptAnswers(clusters.ask, fresh=60.0)
    found = await asyncio.gather(*(answers.get("route") for _ in range(20)), answers.get("other"))
    assert {each.value for each in found} == {"route 1", "other 2"}
    assert (await answers.get("route")).value == "route 1"
    assert clusters.asked == 2
    assert time.time() - found[0].at < 5
    assert not found[0].asking


async def test_an_answer_that_takes_long_is_given_when_it_is_there() -> None:
    """And the old one until then."""
    clusters = _Clusters()
    answers = KeptAnswers(clusters.ask, fresh=0.0, patience=0.02)
    assert (await answers.get("route")).value == "route 1"
    clusters.seconds = 0.3

    async def one_under_way() -> Kept[str] | None:
        found = await answers.get("route")
        return found if found.asking else None

    second = await until(one_under_way)
    assert (second.value, second.asking) == ("route 1", True)
    (asking,) = (task for task in asyncio.all_tasks() if task.get_name() == "look at route")
    await asking
    assert (await answers.get("route")).value == "route 2"
    assert clusters.asked == 2, "what took long is asked again after ten times as long at the earliest"


async def test_after_an_answer_that_took_long_the_next_is_not_put_off_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that hung for half a minute may answer by now."""
    monkeypatch.setattr(module, "_PAUSE_MOST", 0.05)
    clusters = _Clusters()
    clusters.seconds = 0.3
    answers = KeptAnswers(clusters.ask, fresh=0.0)
    assert (await answers.get("route")).value == "route 1"
    await asyncio.sleep(0.06)
    assert (await answers.get("route")).value == "route 2"


async def test_a_new_answer_that_does_not_come_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was known before must not look as if it were so now."""
    monkeypatch.setattr(module, "_LATE", 0.2)
    clusters = _Clusters()
    answers = KeptAnswers(clusters.ask, fresh=0.0, patience=0.01)
    await answers.get("route")
    clusters.seconds = 0.5
    await asyncio.sleep(0.01)
    found = await answers.get("route")
    assert (found.asking, found.late) == (True, False)
    await asyncio.sleep(0.25)
    found = await answers.get("route")
    assert (found.value, found.asking, found.late) == ("route 1", True, True)
    (asking,) = (task for task in asyncio.all_tasks() if task.get_name() == "look at route")
    await asking
    assert not (await answers.get("route")).late


async def test_what_went_wrong_stands_beside_the_last_answer() -> None:
    clusters = _Clusters()
    answers = KeptAnswers(clusters.ask, fresh=0.0)
    clusters.error = ReplicatorError("the target is away")
    found = await answers.get("route")
    assert (found.value, found.at, found.problem) == (None, 0.0, "the target is away")
    clusters.error = None
    await asyncio.sleep(0.01)
    good = await answers.get("route")
    assert (good.value, good.problem) == ("route 2", "")
    clusters.error = ReplicatorError("away again")
    await asyncio.sleep(0.01)
    found = await answers.get("route")
    assert (found.value, found.at, found.problem) == ("route 2", good.at, "away again")
    clusters.error = LookupError("a bug")
    await asyncio.sleep(0.01)
    with pytest.raises(LookupError):
        await answers.get("route")


async def test_the_answer_before_an_unexpected_error_is_not_shown_as_new() -> None:
    """To whoever looks after the one whose look has failed."""
    clusters = _Clusters()
    answers = KeptAnswers(clusters.ask, fresh=0.0, patience=0.02)
    await answers.get("route")
    clusters.error, clusters.seconds = LookupError("a bug"), 0.05
    await asyncio.sleep(0.01)
    assert (await answers.get("route")).asking
    (asking,) = (task for task in asyncio.all_tasks() if task.get_name() == "look at route")
    with pytest.raises(LookupError):
        await asking
    found = await answers.get("route")
    assert (found.value, found.problem) == ("route 1", "LookupError: a bug")


async def test_an_answer_about_something_else_is_none() -> None:
    """Nor is one that was asked for before, and comes later."""
    clusters = _Clusters()
    answers = KeptAnswers(clusters.ask, fresh=60.0, patience=0.02)
    assert (await answers.get("route", 1)).value == "route 1"
    clusters.seconds = 0.1
    found = await answers.get("route", 2)
    assert (found.value, found.asking) == (None, True)
    clusters.seconds = 0.0
    assert (await answers.get("route", 3)).value == "route 3"
    (asking,) = (task for task in asyncio.all_tasks() if task.get_name() == "look at route")
    await asking
    assert (await answers.get("route", 3)).value == "route 3"
