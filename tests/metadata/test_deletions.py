"""What counts as deleted at the source."""

from __future__ import annotations

import pytest

from replicator.metadata.action import Action, DropGroup, DropTopic, Forbid, WriteGroup
from replicator.metadata.deletions import emptied, unsure
from replicator.metadata.ledger import DRIFT, Entry, Planned

LEDGER = {("x", name): Entry({}, {}, name) for name in ("T", "U", "V")}
BROKERS = {"T": ["a"], "U": ["a"], "V": ["b"]}


@pytest.mark.parametrize(
    ("there", "lost"),
    [
        ({"a": ["T", "U"], "b": ["V"]}, []),
        ({"a": ["U"], "b": ["V"]}, []),  # one topic was deleted
        ({"a": ["W"], "b": ["V"]}, ["a"]),  # what it has was never synced
        ({"a": ["T"], "b": []}, []),  # of one topic nobody can tell
        ({"b": ["V"]}, []),  # a is away, which is told otherwise
    ],
)
def test_a_broker_that_has_lost_all_at_once(there: dict[str, list[str]], lost: list[str]) -> None:
    assert [*emptied(LEDGER, there, BROKERS.__getitem__)] == lost


def test_what_no_master_denies_is_not_gone() -> None:
    drop = Action(kind="topics", broker="x", key="T", before={}, after=None, write=DropTopic("T"))
    ban = Action(kind="groups", broker="x", key="G", before={}, after={}, write=Forbid("G", "T", readable=False))

    def judged(action: Action, masters: list[str]) -> str:
        return unsure(Planned([action], {}), masters, lambda _: ["b"], ["a"]).actions[0].blocked

    assert judged(drop, ["a", "b"]) == ""
    assert "no master of b answers" in judged(drop, ["a"])
    assert "no master of a answers" in judged(drop, ["b"])
    assert "delete it here" not in judged(drop, ["a"]), "a group that is in use may be only there"
    assert "`replicator brokers forget`" in judged(drop, ["a"])
    assert judged(ban, []) == ""  # it is set there, whatever others have
    drifted = Action(
        kind="groups",
        broker="x",
        key="G",
        before={},
        after={},
        write=Forbid("G", "T", readable=True),
        blocked=DRIFT,
    )
    assert judged(drifted, []) == DRIFT


def test_of_a_source_that_does_not_answer_nothing_is_said_to_be_gone() -> None:
    """Whoever was told so while it was dead might delete a group that is in use."""
    drop = Action(kind="groups", broker="x", key="G", before={}, after=None, write=DropGroup("G"))
    ban = Action(kind="groups", broker="x", key="G", before={}, after={}, write=Forbid("G", "T", readable=True))
    other = Action(kind="groups", broker="x", key="H", before={}, after={}, write=WriteGroup({}))
    found = unsure(Planned([drop, ban, other], {}), [], lambda _: ["a"], ["a"])
    assert found.actions == [other]
