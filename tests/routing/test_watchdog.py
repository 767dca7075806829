"""Queues that failed are tried again, later and later; queues that stand still are restarted once, then told."""

from __future__ import annotations

import json

from replicator.routing.queue_map import Queue
from replicator.routing.state import Phase, QueueState
from replicator.routing.watchdog import Watchdog
from tests.support.scene import TARGET, SceneOf
from tests.support.traffic import configured, connected, send
from tests.support.worker import until


def _state(phase: Phase, *, position: int = 10, lag: int = 5) -> QueueState:
    state = QueueState("T", Queue("a", 0), Queue("b", 0))
    state.phase, state.progress.position, state.progress.max_offset = phase, position, position + lag
    return state


def _restarts(state: QueueState, *, seconds: int, stall: float = 60) -> list[int]:
    watchdog = Watchdog(stall)
    return [now for now in range(seconds) if watchdog.wants_restart("q", state, now)]


def test_a_failed_queue_is_tried_again_after_longer_and_longer() -> None:
    restarts = _restarts(_state(Phase.FAILED), seconds=2000)
    pauses = [after - before for before, after in zip([0, *restarts], restarts, strict=False)]
    assert pauses[:5] == [11, 21, 41, 81, 161]
    assert set(pauses[5:]) == {301}


def test_a_queue_without_progress_is_restarted_and_then_told_as_stalled() -> None:
    for phase in (Phase.RUNNING, Phase.RECOVERING, Phase.STARTING):
        state, watchdog = _state(phase), Watchdog(60)
        assert [now for now in range(100) if watchdog.wants_restart("q", state, now)] == [60]
        assert not state.stalled
        assert [now for now in range(100, 200) if watchdog.wants_restart("q", state, now)] == [120, 180]
        assert state.stalled
        state.progress.position = 11
        assert not watchdog.wants_restart("q", state, 200)
        assert not state.stalled


def test_a_queue_that_waits_or_has_nothing_to_do_is_left_alone() -> None:
    assert not _restarts(_state(Phase.WAITING), seconds=500)
    assert not _restarts(_state(Phase.RUNNING, lag=0), seconds=500)
    throttled = _state(Phase.RUNNING)
    throttled.throttled = True  # a limit of ten messages a second keeps a batch of thousands for minutes
    assert not _restarts(throttled, seconds=500)


def test_one_queue_says_nothing_of_another() -> None:
    watchdog, slow, quick = Watchdog(60), _state(Phase.RUNNING), _state(Phase.RUNNING)
    for now in range(61):
        quick.progress.position = now
        assert watchdog.wants_restart("slow", slow, now) == (now == 60)
        assert not watchdog.wants_restart("quick", quick, now)


async def test_a_queue_goes_on_by_itself_once_the_cause_is_away(scene: SceneOf) -> None:
    """The target refuses a message over its limit until that is raised; no other queue is touched meanwhile."""
    async with scene(mistreated=(TARGET,), queues=3) as route, route.worker() as worker:
        topic = route.topic
        async with configured(route.target, maxMessageSize=65536):
            await route.produce(30)
            async with connected(route.source) as client:
                await send(client, "east-a", topic, 1, [(b"L" * 100_000, {"KEYS": "large"})])
            await until(lambda: worker.topic(topic).get("state") == "FAILED")
            await route.produce(30, start=100)
            await until(lambda: [q["copied"] for q in worker.queues(topic)] == [20, 10, 20])
        await worker.caught_up(topic, 61)
        restarts = [json.loads(line) for line in worker.log.splitlines() if '"queue restarted"' in line]
        assert {(event["connector"], event["queue"], event["state"]) for event in restarts} == {
            ("route", f"{topic}/east-a/1", "FAILED")
        }
        assert '"task stopped"' not in worker.log
        assert worker.topic(topic)["duplicates"] == 0
        await route.assert_clean(61)
