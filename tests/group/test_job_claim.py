"""A job from the command line says that its tasks may send while others hear it, and ends if they have not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from replicator.errors import ReplicatorError, StartupError
from replicator.group import job_claim as module
from replicator.group.control_log import LogMessage
from replicator.group.job_claim import JobClaim, claimed, jobs_of, topics_of
from replicator.group.job_lease import JOBS
from replicator.group.membership import Heartbeat, MemberState
from replicator.group.signature import Signer
from replicator.group.wire import write_heartbeat
from replicator.routing.message_queue import MessageQueue
from replicator.settings import Settings, load

TIMEOUT = 10.0
TOPIC = "replicator_sys_source_online"


def settings_of(**more: object) -> Settings:
    clusters = {"source": {"namesrv": "a:1"}, "target": {"namesrv": "b:1"}}
    return load({**clusters, "topics": ["orders"], "session_timeout": TIMEOUT, **more}, file=None)


class Scene:
    """A claim for the topic `orders` in the group g, at a time that a test sets, whose log is heard or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 1000.0
        monkeypatch.setattr(module, "now", lambda: self.at)
        self.claim = JobClaim("backfill", settings_of(), "g", {"orders"})
        self.is_heard = True
        self._named = False

    async def write(self, topic: str, body: bytes, *, copies: int = 1) -> None:
        """As the log that the claim writes to."""
        beat = Signer().heartbeat(topic, body, jobs_of("g"))
        assert beat is not None
        assert copies > 1
        self._named = self.claim.lease.job in beat.info[JOBS]
        if self.is_heard:
            self.say(body)

    def say(self, body: bytes) -> None:
        self.claim._on_said(LogMessage(MessageQueue(TOPIC, "a", 0), body, int(self.at * 1000)))

    async def beat(self, *, seconds: float = 1.0, stage: MemberState = MemberState.ONLINE) -> bool:
        """A heartbeat, so long after the last one; whether it names the job."""
        self.at += seconds
        carrier: Any = self
        await self.claim._beat(carrier, stage)
        return self._named

    async def heard_again(self) -> None:
        """After a silence in which workers may have taken the job for ended, and begun."""
        await self.beat()
        self.is_heard = False
        await self.beat(seconds=TIMEOUT)
        self.is_heard = True
        assert not await self.beat()
        assert not await self.beat()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def beat_of(group: str, worker: str, *, stage: MemberState = MemberState.ONLINE, **info: object) -> bytes:
    return write_heartbeat(group, Heartbeat(worker=worker, incarnation=worker, sequence=1, stage=stage, info=info))


async def test_a_job_is_named_while_it_is_heard(scene: Scene) -> None:
    """And not in the heartbeat that says that it has ended."""
    assert all([await scene.beat() for _ in range(30)])
    lease = scene.claim.lease
    assert (lease.group, lease.incarnation, lease.seconds) == ("g/jobs", scene.claim.incarnation, TIMEOUT / 2)
    assert not await scene.beat(stage=MemberState.LEFT)


async def test_a_job_that_is_not_heard_is_named_after_it_has_listened_again(scene: Scene) -> None:
    """A broker was away, or the process stood still: a worker that came meanwhile would be heard by then."""
    await scene.beat()
    scene.is_heard = False
    assert [await scene.beat() for _ in range(10)] == [True] * 7 + [False] * 3
    scene.is_heard = True
    assert [await scene.beat() for _ in range(14)] == [False] * 11 + [True] * 3
    assert not await scene.beat(seconds=3600)


@pytest.mark.parametrize(
    "rival",
    [
        beat_of("g", "w", tasks={"route/orders": "RUNNING"}),
        beat_of("g", "w"),
        beat_of("g/jobs", "backfill on another", topics=["ord.*"]),
    ],
)
async def test_a_job_ends_if_others_have_its_queues(scene: Scene, rival: bytes) -> None:
    await scene.heard_again()
    scene.say(rival)
    with pytest.raises(ReplicatorError, match="copies its queues now"):
        [await scene.beat() for _ in range(20)]


@pytest.mark.parametrize(
    "others",
    [
        [beat_of("g", "w", tasks={"route/payments": "RUNNING"})],
        [beat_of("g", "w", waiting_for="backfill on here")],
        [beat_of("g/jobs", "backfill on another", topics=["payments"])],
        [beat_of("other", "w")],
        [beat_of("g", "w"), beat_of("g", "w", stage=MemberState.LEFT)],
    ],
)
async def test_a_job_goes_on_if_others_have_not_its_queues(scene: Scene, others: list[bytes]) -> None:
    """A worker that waits for it, one of other topics, one that has ended."""
    await scene.heard_again()
    for body in others:
        scene.say(body)
    assert [await scene.beat() for _ in range(20)][-1]


class Log:
    """A control log that a test breaks."""

    broken: Callable[[], None] | None = None

    def __init__(self, *_: object, **_more: object) -> None:
        pass

    async def open(self, _: object) -> None:
        pass

    async def write(self, *_: object, **_more: object) -> None:
        if Log.broken is not None:
            Log.broken()

    async def close(self) -> None:
        pass


def cluster() -> Any:
    return Log()


def bug() -> None:
    raise ValueError("a bug")


def refused() -> None:
    raise StartupError("no rights")


@pytest.mark.parametrize(("broken", "error"), [(bug, "ValueError"), (refused, "no rights")])
def test_a_job_that_cannot_be_announced_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[[], None], error: str
) -> None:
    """Whatever the reason."""
    monkeypatch.setattr(module, "ControlLog", Log)
    monkeypatch.setattr(Log, "broken", broken)
    with pytest.raises(ReplicatorError, match=error), claimed("backfill", settings_of(), "g", {"orders"}, cluster):
        pytest.fail("it begins")


def test_a_job_that_is_not_announced_any_more_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else would notice an error in a thread."""
    monkeypatch.setattr(module, "ControlLog", Log)
    monkeypatch.setattr(Log, "broken", None)
    settings = settings_of(heartbeat_interval=0.1)
    with claimed("backfill", settings, "g", {"orders"}, cluster) as claim:
        claim.check()
        monkeypatch.setattr(Log, "broken", bug)
        with pytest.raises(ReplicatorError, match="not announced any more"):
            _run_until_it_ends(claim)


def _run_until_it_ends(claim: JobClaim) -> None:
    for _ in range(600):
        claim.check()
        time.sleep(0.05)


def test_what_no_job_starts_with_copies_nothing() -> None:
    """Somebody else wrote it: it must end neither the reader of the log nor the job."""
    assert topics_of({"topics": ["or.*"], "exclude_topics": ["orx"]}, ["orders", "orx", "other"]) == ["orders"]
    for pattern in ("(", "a{99999999999999999999}", "(" * 3000 + ")" * 3000):
        assert topics_of({"topics": [pattern]}, ["a" * 100]) == []


def test_what_takes_too_long_to_find_out_may_be_copied() -> None:
    """Where it runs it may have been found out in time: two must not copy the same."""
    assert topics_of({"topics": ["(a|a)+[.]"]}, ["a" * 100, "other"]) == ["a" * 100]
