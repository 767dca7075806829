"""Requests to the metadata task: one at a time, and each who asked hears what became of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator.connector.sync.ledger import BeingApplied, Request, SyncLedger
from replicator.metadata.action import Unasked
from replicator.state.record_types import fit
from replicator.state.store import Store

DONE = [Unasked("offsets", "b", "away").shown()]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SyncLedger]:
    store = Store(tmp_path)
    yield SyncLedger("route", store)
    store.close()


def test_while_a_request_is_open_there_is_no_second(ledger: SyncLedger) -> None:
    """Until it is done, or nobody waits for it any more."""
    first = ledger.ask(["g"], seconds=60, by="REST 10.0.0.1")
    with pytest.raises(BeingApplied, match=r"by REST 10\.0\.0\.1"):
        ledger.ask(["h"], seconds=60)
    assert ledger.take() == Request(first, ["g"], "REST 10.0.0.1")
    with pytest.raises(BeingApplied):
        ledger.ask(["h"], seconds=60)
    ledger.answer(first, DONE)
    second = ledger.ask(["h"], seconds=60)
    ledger.withdraw(second)
    ledger.ask(["i"], seconds=-1)
    assert ledger.ask(["j"], seconds=60)


def test_the_last_answers_are_known_for_a_while(ledger: SyncLedger) -> None:
    """Whoever asks next does not take the answer away from who asked before."""
    asked = []
    for _ in range(4):
        asked.append(ledger.ask([], seconds=60))
        assert ledger.take() is not None
        ledger.answer(asked[-1], DONE)
        ledger.withdraw(asked[-1])
    assert [ledger.answered(each) for each in asked] == [None] * 2 + [DONE] * 2
    assert [ledger.is_taken(each) for each in asked] == [False] * 2 + [True] * 2
    fit("sync", "route/answer", [1, "w"], ledger.get("answer"), now=time.time())


def test_of_two_requests_at_the_same_moment_one_is_refused(ledger: SyncLedger) -> None:
    """Both workers found none; the later version has won. The other will never be taken, and hears so."""
    lost = ledger.ask(["g"], seconds=60)
    won = {**ledger.get("request"), "id": "x", "by": "REST 10.0.0.2"}
    ledger.put("request", won)
    ledger.refuse_if_replaced(lost)  # it is not known yet whether the first was taken before
    assert ledger.take() == Request("x", ["g"], "REST 10.0.0.2")
    with pytest.raises(BeingApplied, match=r"10\.0\.0\.2"):
        ledger.refuse_if_replaced(lost)
    ledger.refuse_if_replaced("x")
    ledger.answer("x", DONE)
    ledger.withdraw("x")
    ledger.refuse_if_replaced(lost)


def test_records_of_an_older_version_are_read(ledger: SyncLedger) -> None:
    """They name nobody, and have the last answer alone."""
    old = {"id": "a", "force": ["g"], "until": time.time() + 60}
    fit("sync", "route/request", [1, "w"], old, now=time.time())
    ledger.put("request", old)
    with pytest.raises(BeingApplied):
        ledger.ask([], seconds=60)
    assert ledger.take() == Request("a", ["g"], "")
    answered = {"id": "a", "done": DONE}
    fit("sync", "route/answer", [1, "w"], answered, now=time.time())
    ledger.put("answer", answered)
    assert (ledger.answered("a"), ledger.take()) == (DONE, None)
    ledger.answer("b", None)
    assert ledger.answered("a") == DONE
