"""Who runs in the group that a worker would join, and which other groups copy the same, by their heartbeats."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple

from replicator.client.brokers import max_offset
from replicator.client.discovery import Discovery
from replicator.client.queue_range import read_range
from replicator.connector.context import ConnectorContext
from replicator.errors import ClientError, ProtocolError
from replicator.group.job_claim import jobs_of
from replicator.group.membership import Heartbeat, MemberState
from replicator.group.other_log import SOURCE, observers_of
from replicator.group.signature import Signer
from replicator.group.wire import NewerForm, Unreadable, read_message
from replicator.operate.doctor.facts import Facts
from replicator.operate.doctor.finding import Finding, bad, good, odd, unchecked
from replicator.protocol.message import StoredMessage
from replicator.routing.task_id import TaskId
from replicator.settings import Settings

__all__ = ["Beat", "examine_workers", "judge_workers"]

#: Heartbeats that are read of each broker.
_BEATS: Final = 500


class Beat(NamedTuple):
    """A worker of `group` that runs; `topics` is what it copies and `source` the id of the cluster that it copies
    from, `proved` that its signature was checked.
    """

    group: str
    worker: str
    topics: frozenset[str]
    source: str = ""
    proved: bool = True


async def examine_workers(
    settings: Settings,
    topics: Set[str],
    context: ConnectorContext,
    source: Mapping[str, Facts],
    target: Mapping[str, Facts],
) -> list[Finding]:
    """Reads the heartbeats on both clusters; those on the target name the source that is copied from.

    Args:
        topics: what the route would copy.
        source, target: by the names of their brokers.
    """
    identity, findings = context.identity, list[Finding]()
    group = settings.worker_group or f"{identity.source}-{identity.target}"
    heard: list[set[Beat]] = []
    for side, cluster, facts in (("source", context.source, source), ("target", context.target, target)):
        try:
            heard.append(await _beats(settings, group, cluster, facts))
        except (ClientError, ProtocolError) as error:
            heard.append(set())
            message = f"which workers run, because {error.message}"
            findings.append(unchecked("group", f"{side} cluster", message))
    ours = heard[0] if settings.coordination == "source" else heard[1]
    there = [beat._replace(group=beat.group.removesuffix(observers_of("", beat.source))) for beat in heard[1]]
    others = [beat for beat in there if beat.source == identity.source and beat.group != group]
    return [*findings, *judge_workers("" if settings.standalone else group, [*ours], others, topics)]


async def _beats(settings: Settings, group: str, cluster: Discovery, facts: Mapping[str, Facts]) -> set[Beat]:
    """The workers of all groups that are heard now on a cluster."""
    found, signer, topic = set[Beat](), Signer.of(settings), settings.source_online_topic
    for broker, held in cluster.topics.items():
        if topic not in held:
            continue
        reader = cluster.cluster.reader(broker)
        end = await max_offset(reader, topic, 0)
        messages = [m async for m in read_range(reader, topic, 0, max(0, end - _BEATS), end)]
        for message in messages:
            if _age(message, facts.get(broker)) > 2 * settings.session_timeout:  # one of them may be late
                continue
            proved = signer.heartbeat(topic, message.content, group)
            named, beat = (group, proved) if proved is not None else _claimed(message.content)
            if beat is not None and beat.stage is not MemberState.LEFT:
                tasks = beat.info.get("tasks", {})
                copied = frozenset(TaskId.parse(task).name for task in tasks if "/" in task)
                found.add(Beat(named, beat.worker, copied, str(beat.info.get(SOURCE, "")), proved is not None))
    return found


def _age(message: StoredMessage, facts: Facts | None) -> float:
    """Seconds since a broker stored a message, by the broker's own clock as far as that is known."""
    skew = facts.skew if facts is not None else None
    ahead = 0.0 if skew is None else max(skew[0], min(skew[1], 0))
    return time.time() - (message.store_timestamp - ahead) / 1000


def _claimed(body: bytes) -> tuple[str, Heartbeat | None]:
    """The group and the heartbeat that a body says it is, whoever has signed it."""
    try:
        envelope = read_message(body.partition(b"\n")[2] if body.startswith(b"signed ") else body)
    except (NewerForm, Unreadable):
        return "", None
    return envelope.group, envelope.heartbeat


def judge_workers(group: str, heard: Sequence[Beat], others: Sequence[Beat], topics: Set[str]) -> Iterator[Finding]:
    """Of the workers of `group`, and of those of other groups that copy between the same clusters.

    Args:
        group: empty: the worker stands alone.
        heard: who is heard on the cluster by which the group finds itself.
    """
    ours = sorted({beat.worker for beat in heard if beat.group == group and beat.proved})
    jobs = sorted({beat.worker for beat in heard if beat.group == jobs_of(group)})
    if not group:
        yield good("group", "standalone", "a worker runs alone, and no other one hears it")
    elif ours:
        yield good("group", group, f"workers that run: {', '.join(ours)}; another one joins them")
    else:
        yield good("group", group, "no worker runs: the first one begins it")
    if group and jobs:
        yield good("group", group, f"Spark jobs that run: {', '.join(jobs)}; workers leave their topics to them")
    strangers = sorted({beat.worker for beat in heard if beat.group == group and not beat.proved} - {*ours})
    if group and strangers:
        yield bad(
            "group",
            group,
            f"workers of it are heard that sign otherwise, and will not be believed: {', '.join(strangers)}",
            "set worker_group_secret_file to the same secret on all workers",
        )
    for name in sorted({beat.group for beat in others}):
        theirs = [beat for beat in others if beat.group == name]
        copied = {topic for beat in theirs for topic in beat.topics}
        workers = ", ".join(sorted({beat.worker for beat in theirs}))
        advice = f"stop them, join them with --worker-group {name}, or give each group topics of its own"
        if both := sorted(copied & topics):
            message = (
                f"it copies {both[0]} between the same clusters: everything of it would arrive twice ({workers})"
            )
            yield bad("other group", name, message, advice)
        else:
            message = f"it runs between the same clusters, with other topics ({workers})"
            yield odd("other group", name, message, advice)
