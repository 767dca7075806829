"""What is blocked is not done, and nothing more once it may not go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator.connector.sync.possible_actions import each_possible, would_apply
from replicator.metadata.action import Action, DropGroup
from replicator.metadata.syncer import Applied


def action(key: str, blocked: str = "") -> Action:
    return Action(kind="groups", broker="x", key=key, before=None, after={}, write=DropGroup(key), blocked=blocked)


@pytest.mark.parametrize("kind", ["groups", "offsets"])
async def test_what_is_blocked_is_left_out(kind: str) -> None:
    actions = [replace(action(key, "no" if key == "b" else ""), kind=kind) for key in "abc"]
    done = await each_possible(kind, actions, would_apply)
    assert done == [Applied(actions[0], ""), Applied(actions[2], "")]


async def test_nothing_is_begun_any_more_once_it_may_not_go_on() -> None:
    allowed = iter([True, False, True])
    done = await each_possible("groups", map(action, "abc"), would_apply, lambda: next(allowed))
    assert [each.action.key for each in done] == ["a"]
