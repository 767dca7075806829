"""What a worker's turn does beside what its coordinator decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.group.membership import MemberState
from replicator.worker.agenda import Agenda
from replicator.worker.worker import Worker


class Turn:
    """A worker whose leader's part is asked to end; `calls` says when."""

    def __init__(self, stage: MemberState, *, fence: bool) -> None:
        self.calls: list[str] = []
        self.agenda = Agenda()
        self.coordinator: Any = SimpleNamespace(
            stage=stage,
            running=set(),
            assignment=SimpleNamespace(generation=0),
            step=lambda *_, **__: SimpleNamespace(fence=fence),
            stable=lambda _: True,
        )
        self.routes = SimpleNamespace(tasks=lambda: {"route/orders"})
        self.looked: list[set[str]] = []
        self.unowned = SimpleNamespace(update=lambda _, tasks, __: self.looked.append(tasks))
        self.rebalances = SimpleNamespace(update=lambda *_, **__: None)
        self.leader = SimpleNamespace(lead=lambda: None, end=self._ended)
        self.progress = SimpleNamespace(publish=self._published)
        self.group = SimpleNamespace(unsaid=False)

    async def _ended(self) -> None:
        self.calls.append(f"ended while {self.coordinator.stage}")

    async def _published(self, **_: object) -> None:
        self.calls.append("published")

    def _wanted(self) -> object:
        return bool

    def _do(self, *_: object) -> None:
        self.calls.append("done")

    async def turn(self) -> list[str]:
        """What it did, in order."""
        await Worker._turn(cast("Worker", self))
        return self.calls


@pytest.mark.parametrize(
    ("stage", "fence", "calls"),
    [
        (MemberState.ONLINE, False, ["done"]),
        (MemberState.ONLINE, True, ["done", "ended while online"]),
        (MemberState.LEAVING, False, ["done", "ended while leaving", "published"]),
    ],
    ids=["well", "fenced", "leaving"],
)
async def test_a_worker_that_is_fenced_or_leaves_makes_nothing_at_the_target(
    stage: MemberState, fence: bool, calls: list[str]
) -> None:
    """It has ended that before it says that it has left."""
    turn = Turn(stage, fence=fence)
    assert await turn.turn() == calls
    assert turn.looked == [{"route/orders"}], "whether tasks have no owner is seen at every turn"
    assert (turn.coordinator.stage is MemberState.LEFT) is (stage is MemberState.LEAVING)


@pytest.mark.parametrize(("caught_up", "is_split"), [(True, False), (False, False), (True, True)])
def test_tasks_that_others_may_copy_are_not_wanted(*, caught_up: bool, is_split: bool) -> None:
    """Before the target has said what was decided there, and while others of the group have another secret."""
    worker: Any = SimpleNamespace(
        mirror=SimpleNamespace(caught_up=caught_up),
        group=SimpleNamespace(is_split=is_split),
        routes=SimpleNamespace(wanted=lambda: lambda _: True),
    )
    assert Worker._wanted(worker)("route/orders") == (caught_up and not is_split)
