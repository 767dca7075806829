"""What is noted during a turn is for the next one, which begins at once."""

from __future__ import annotations

import asyncio

from replicator.worker import agenda as module
from replicator.worker.agenda import Agenda


async def test_the_next_turn_begins_when_something_is_noted() -> None:
    for note in (Agenda.wake, Agenda.wants_reconcile, Agenda.wants_publish_all):
        agenda = Agenda()
        agenda.begin_turn()
        turn = asyncio.create_task(agenda.next_turn())
        await asyncio.sleep(0.01)
        assert not turn.done()
        note(agenda)
        await asyncio.wait_for(turn, module._STEP / 2)


async def test_what_comes_during_a_turn_is_not_lost() -> None:
    agenda = Agenda()
    agenda.begin_turn()
    agenda.wants_reconcile()
    await asyncio.wait_for(agenda.next_turn(), module._STEP / 2)
    assert agenda.reconcile
    assert not agenda.publish_all


async def test_a_turn_begins_without_news_too() -> None:
    agenda = Agenda()
    await asyncio.wait_for(agenda.next_turn(), 10 * module._STEP)
