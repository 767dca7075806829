"""The REST of a running group, as RocketMQ Connect's users know it, and the commands that speak it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from replicator.state import state_file
from tests.support.clusters import ClusterPool
from tests.support.command import run
from tests.support.group import workers_of
from tests.support.scene import SceneOf
from tests.support.traffic import configured, create_topic, judge, produce, raw_topic
from tests.support.worker import Worker, command, until

pytestmark = pytest.mark.timeout(300)

EAST, WEST = ClusterSpec(name="east", version="5.3.3"), ClusterSpec(name="west", version="5.3.3")


@asynccontextmanager
async def _pair(
    clusters: ClusterPool, directory: Path, topics: list[str], *, messages: int = 100
) -> AsyncIterator[tuple[Worker, Worker]]:
    """Two workers that copy `topics`, of which each has as many messages."""
    source, target = await clusters.pair(EAST, WEST)
    for topic in topics:
        await create_topic(source, topic, queues=2)
        await produce(source, topic, messages)
    flags = ("--topics", ",".join(topics))
    first, second = (Worker(source, target, directory / n, "--worker-id", n, *flags) for n in ("one", "two"))
    async with first, second:
        await until(lambda: sorted(first.running + second.running) == sorted(topics))
        for worker in (first, second):
            await until(partial(_knows_all, worker, messages * len(topics)), what="it knows that all is copied")
        yield first, second


async def test_any_worker_answers_for_the_group(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Workers, connectors, tasks, queue map, offsets both ways; by HTTP and by command."""
    topics = [topic_name("a"), topic_name("b")]
    async with _pair(clusters, tmp_path, topics) as pair:
        for worker in pair:
            await until(partial(_settled, worker), what="nothing changes hands any more")
            await until(partial(_both_have_tasks, worker), what="both have tasks")
            await until(partial(_knows_all, worker, 200), what="it knows how far all are")
            status, cluster = worker.ask("GET", "/getClusterInfo")
            assert status == 200
            assert [(w["worker_id"], w["state"], w["takes_tasks"]) for w in cluster["workers"]] == [
                ("one", "ONLINE", True),
                ("two", "ONLINE", True),
            ]
            assert [w["address"] for w in cluster["workers"]] == [f"127.0.0.1:{w.port}" for w in pair]
            assert cluster["leader"] == "one"
            _, allocated = worker.ask("GET", "/allocated/tasks")
            assert sorted(t["task"] for tasks in allocated.values() for t in tasks) == sorted(topics)
            assert worker.ask("GET", "/allocated/connectors")[1] == {"one": ["route"], "two": ["route"]}
            assert worker.ask("GET", f"/connectors/route/tasks/{topics[0]}/status")[1]["state"] == "RUNNING"
            assert worker.ask("GET", "/connectors/route/config")[1]["topics"] == topics
            _, queues = worker.ask("GET", f"/connectors/route/queues?topic={topics[1]}")
            assert [queue["source"] for queue in queues] == [{"broker": "east-a", "queue": i} for i in (0, 1)]
            place = f"topic={topics[0]}&broker=west-a&queue=1&offset=49&side=target"
            there = worker.ask("GET", f"/connectors/route/where?{place}")[1]
            assert there == {"topic": topics[0], "broker": "east-a", "queue": 1, "offset": 49}
            status, refused = worker.ask("GET", f"/connectors/route/where?{place.replace('49', '490')}")
            assert (status, "offset 490 of west-a/1" in refused["errors"][0]) == (404, True)
        assert "one" in await run(pair[1], "cluster")

        async def all_told() -> bool:
            found = json.loads(await run(pair[0], "connectors", "status", "route", "--output", "json"))
            return [(topic["topic"], topic["lag_messages"]) for topic in found["topics"]] == [
                (t, 0) for t in topics
            ]

        await until(all_told, what="each has told of its topic")
        assert topics[1] in await run(pair[0], "allocated")

        async def all_shown() -> bool:
            shown = await run(pair[0], "lag")
            return all(topic in shown for topic in topics)

        await until(all_shown, what="the lag of each")
        assert topics[1] in await run(pair[0], "top", "--once")
        for asked in (
            *("cluster", "allocated", "lag", "top", "plan", "connectors list", "connectors tasks route"),
            *("connectors config route", "plugins list", "plugins config"),
        ):  # the runner holds what they print to its schema
            assert json.loads(await run(pair[0], *asked.split(), "-o", "json")) is not None
        shown = await run(pair[0], "where", topics[0], "east-a", "0", "7", "--output", "json")
        assert json.loads(shown) == {"topic": topics[0], "broker": "west-a", "queue": 0, "offset": 7}
        (pair_of_places,) = json.loads(await run(pair[1], "where", topics[0], "--key", "k7", "--output", "json"))
        assert pair_of_places["source"] == {"topic": topics[0], "broker": "east-a", "queue": 1, "offset": 3}
        assert pair_of_places["target"] == {"topic": topics[0], "broker": "west-a", "queue": 1, "offset": 3}
        assert pair[0].ask("GET", f"/connectors/route/where/key?topic={topics[0]}&key=k700")[0] == 404
        assert "consistent-hash" in await run(pair[0], "plugins", "list")
        assert "rate_messages" in await run(pair[0], "plugins", "config")
        given = {"REPLICATOR_URL": f"http://127.0.0.1:{pair[0].port}"}
        ended = await asyncio.to_thread(command, given, "connectors", "status", "none")
        assert (ended.returncode, ended.stderr.count("\n")) == (6, 1)
        assert "there is no connector 'none': there are: route" in ended.stderr


def _settled(worker: Worker) -> bool:
    return not worker.ask("GET", "/getClusterInfo")[1]["rebalancing"]


def _both_have_tasks(worker: Worker) -> bool:
    allocated = worker.ask("GET", "/allocated/connectors")[1]
    return len(allocated) == 2 and all(allocated.values())


def _knows_all(worker: Worker, messages: int) -> bool:
    """Whether it knows that all tasks run and have got through so many messages together."""
    tasks, queues = (worker.ask("GET", f"/connectors/route/{page}")[1] for page in ("tasks", "queues"))
    positions = sum(queue["position"] or 0 for queue in queues)
    return positions == messages and all(task["state"] == "RUNNING" for task in tasks)


async def _restarts_one_task(first: Worker, second: Worker, topics: Sequence[str]) -> None:
    """Asked of one worker, done by the task's owner, and of no other task."""
    await until(lambda: first.running and second.running)
    (other,), (restarted,) = first.running, second.running
    assert sorted([other, restarted]) == sorted(topics)
    assert "restarts" in await run(first, "connectors", "restart", "route", "--task", restarted)
    await until(lambda: '"reason": "it was restarted"' in second.log, what="its owner restarts it")
    await until(lambda: second.running == [restarted])
    assert '"reason": "it was restarted"' not in first.log
    status, page = await asyncio.to_thread(first.ask, "POST", "/connectors/route/tasks/none/restart")
    assert (status, "has no task 'none'" in page["errors"][0]) == (404, True)
    assert min(topics) in page["hint"]


async def test_pause_stop_resume_and_delete_are_three_things(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Told to any worker, done by all; each may be told twice."""
    source = await clusters.get(EAST)
    topics = [topic_name("a"), topic_name("b")]
    async with _pair(clusters, tmp_path, topics) as (first, second):
        for action, state, owned in (("pause", "PAUSED", 2), ("stop", "STOPPED", 0)):
            for worker in (first, second):
                status, told = worker.ask("PUT", f"/connectors/route/{action}")
                assert (status, told["state"]) == (200, state)
            await until(lambda: not first.running and not second.running)
            await until(lambda owned=owned: _owned(second) == owned)  # type: ignore[misc]
            await until(lambda state=state: _state(second) == state)  # type: ignore[misc]
            assert f"is {state} and stays so" in await run(first, "connectors", "restart", "route")
            await produce(source, topics[0], 100, start=1000)
            assert first.ask("PUT", "/connectors/resume/all")[0] == 200
            await until(lambda: sorted(first.running + second.running) == sorted(topics))
            await until(lambda: _lag(first, second) == 0)
        assert "restarts" in await run(second, "connectors", "restart", "route")
        await until(lambda: sorted(first.running + second.running) == sorted(topics))
        await _restarts_one_task(first, second, topics)
        assert first.ask("DELETE", "/connectors/route")[0] == 200
        assert first.ask("DELETE", "/connectors/route")[0] == 200
        await until(lambda: not first.running and not second.running)
        await until(lambda: second.ask("GET", "/connectors/route/status")[0] == 404)
        assert await second.drain() == 0
        for name in ("position.json", "offset.json"):  # nor does what its tasks did last come back
            kept = [held["value"] for kind in _content(second, name).values() for held in kind.values()]
            assert kept
            assert not any(kept)
        await second.start()
        await until(lambda: "was deleted and is not created again" in second.log)
        for worker in (second, first):  # who asked the one that has ended for what is known, and told to the other
            await until(partial(_is_told, worker, "two", "connector restarted"))
        status, made = second.ask(
            "POST", "/connectors/again", {"topics": topics[0], "rate_messages": "50", "sync": "none"}
        )
        assert (status, made["config"]["rate_messages"]) == (201, 50)
        await until(lambda: first.running + second.running == [topics[0]])


def _is_told(worker: Worker, asked: str, what: str) -> bool:
    """Whether the page of `worker` says who has asked another one for something."""
    with urllib.request.urlopen(f"http://127.0.0.1:{worker.port}/page/events?by=people") as answer:
        text = answer.read().decode()
    return re.search(rf"<td>{asked}</td>\s*<td>.*?</td>\s*<td>{what}</td>\s*<td>REST ", text) is not None


def _content(worker: Worker, name: str) -> dict[str, dict[str, Any]]:
    """What one of its files holds, by kind."""
    return cast("dict[str, dict[str, Any]]", state_file.read(worker.store / name))


def _owned(worker: Worker) -> int:
    return len(worker.ask("GET", "/connectors/route/tasks")[1])


def _state(worker: Worker) -> Any:
    return worker.ask("GET", "/connectors/route/status")[1]["connector"]["state"]


def _lag(*workers: Worker) -> int:
    return sum(q["max_offset"] - (q["position"] or 0) for worker in workers for q in worker.get("/status/queues"))


async def test_a_configuration_is_changed_for_all(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Another selection of topics, other rates; what a worker is started with later does not undo it."""
    topics = [topic_name("a"), topic_name("b")]
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic_name("c"), queues=1)
    async with _pair(clusters, tmp_path, topics) as (first, second):
        await run(
            second, "connectors", "update", "route", f"topics={topics[0]},{topic_name('c')}", "rate_bytes=1 MiB"
        )
        wanted = sorted([topics[0], topic_name("c")])
        await until(lambda: sorted(first.running + second.running) == wanted)
        assert first.ask("GET", "/connectors/route/rates")[1] == {"rate_messages": 0, "rate_bytes": 1024**2}
        await first.drain()
        await first.start()
        await until(lambda: "connector was changed over REST" in first.log)
        await until(lambda: sorted(first.running + second.running) == wanted)
        await run(second, "connectors", "update", "route", "rename=moved-{topic}")
        await until(lambda: sorted(first.running + second.running) == wanted)
        await produce(source, topics[0], 50, start=1000)
        await until(partial(_arrived, target, f"moved-{topics[0]}", 50), what="what came since is at the new name")


async def _arrived(cluster: Cluster, topic: str, count: int) -> bool:
    return sum(map(len, (await raw_topic(cluster, topic)).values())) == count


async def test_what_cannot_be_is_refused(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """All mistakes at once, each with field, value and way out; the HTTP status says whose mistake it is."""
    async with _pair(clusters, tmp_path, [topic_name("t")], messages=10) as (worker, _):
        wrong = {"topics": "(", "rate_messages": -1, "tgas": "a"}
        status, refused = worker.ask("POST", "/connectors/a%20b", wrong)
        assert status == 400
        assert len(refused["errors"]) == 4
        text = "\n".join(refused["errors"])
        for told in ("name = 'a b'", "topics = '('", "rate_messages = -1", "did you mean tags"):
            assert told in text
        status, refused = worker.ask("POST", "/connectors/a%20b", {**wrong, "connector.class": "file"})
        assert (status, len(refused["errors"])) == (400, 2)  # only the plugin knows what its settings are
        assert "'file' is not installed: there are routing, file-sink" in refused["errors"][1]
        assert worker.ask("PUT", "/plugin/config/validate", wrong)[1]["valid"] is False
        assert worker.ask("PUT", "/plugin/config/validate", {"topics": "a"})[1] == {"valid": True, "errors": []}
        assert worker.ask("POST", "/connectors/route", {"topics": "other"})[0] == 409
        assert worker.ask("GET", "/connectors/none/config")[0] == 404
        assert worker.ask("PUT", "/connectors/none/pause")[0] == 404
        assert worker.ask("POST", "/connectors/x", b"{")[0] == 400
        assert worker.ask("POST", "/connectors/x", [1])[0] == 400
        # The answer may come, and the connection end, before all of the body is written: then it is asked again.
        too_much = await until(partial(worker.ask, "POST", "/connectors/x", {"topics": "a" * 1024**2}))
        assert too_much[0] == 413
        for path in ("/connectors/route/stop", "/connectors/stop/all"):
            status, refused = worker.ask("GET", path)
            assert (status, refused["hint"]) == (405, "use PUT")
        assert worker.ask("GET", "/connectors/route/stop/now")[0] == 404
        assert worker.running == [topic_name("t")]


async def test_two_connectors_do_not_make_the_same_copies(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """The later one is refused, or leaves out what the other copies, until that is stopped or gone."""
    source, target = await clusters.pair(EAST, WEST)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1)
    await produce(source, topic, 100)
    async with Worker(source, target, tmp_path, "--topics", topic, "--standalone") as worker:
        await until(lambda: worker.running)

        def asked(method: str, path: str, config: dict[str, str] | None = None) -> tuple[int, str]:
            status, body = worker.ask(method, f"/connectors/{path}", config)
            return status, str(body)

        refused = f"connector route copies to topic {topic} already"
        for method in ("POST", "PUT"):
            status, body = asked(method, "more", {"topics": topic_name(".*")})
            assert (status, refused in body) == (400, True)
        assert asked("POST", "more", {"topics": topic, "rename": "more-{topic}"})[0] == 201
        await until(partial(_arrived, target, f"more-{topic}", 100))
        assert asked("PUT", "more", {"topics": topic})[0] == 400
        assert asked("PUT", "route/stop")[0] == 200
        await until(lambda: asked("PUT", "more", {"topics": topic})[0] == 200)
        await produce(source, topic, 100, start=100)
        await until(partial(_arrived, target, topic, 200))
        assert asked("PUT", "route/resume")[0] == 400
        assert asked("PUT", "more/stop")[0] == 200
        await until(lambda: asked("PUT", "route/resume")[0] == 200)
        await until(lambda: worker.running)
        assert "connector more was not resumed" in asked("PUT", "resume/all")[1]
        assert await worker.drain() == 0
    flags = ("--topics", topic, "--standalone", "--connector", "again")
    async with Worker(source, target, tmp_path, *flags) as worker:
        await until(lambda: refused in asked("GET", "again/status")[1])
        assert asked("DELETE", "route")[0] == 200
        await produce(source, topic, 100, start=200)
        await until(partial(_arrived, target, topic, 300))
        await until(lambda: refused not in asked("GET", "again/status")[1])
    verdict = await judge(source, target, topic)
    assert verdict.clean, verdict.report()


async def test_a_connector_waits_for_what_another_still_sends(scene: SceneOf) -> None:
    """One that was stopped sends what it has pulled, slowly here; nothing of that comes twice."""
    async with scene(queues=1) as here:
        await here.produce(300)
        slowly = ("--rate-messages", "30", "--batch-messages", "10")
        async with here.worker(*slowly, "--standalone") as worker:
            await until(lambda: worker.topic(here.topic).get("copied", 0) >= 20)
            assert worker.ask("PUT", "/connectors/route/stop")[0] == 200
            assert worker.ask("POST", "/connectors/again", {"topics": here.topic})[0] == 201
            await until(partial(_arrived, here.target, here.topic, 300))
            await until(lambda: any(event["event"] == "task stopped" for event in worker.events))
            await here.produce(10, start=300)
            await until(partial(_arrived, here.target, here.topic, 310))
        await here.assert_clean(310)


async def test_a_filter_that_a_source_broker_lacks_is_refused(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """SQL92 has to be switched on at the brokers, for connectors made over REST too."""
    target = await clusters.get(WEST)
    async with clusters.lent(EAST) as source:
        await create_topic(source, topic_name("t"), queues=1)
        wanted = {"topics": topic_name("t"), "rename": "x-{topic}", "sql": "a = 1"}
        async with Worker(source, target, tmp_path, "--topics", topic_name("t"), "--standalone") as worker:
            await until(lambda: worker.running)
            async with configured(source, enablePropertyFilter="false"):
                await until(lambda: not worker.ask("PUT", "/plugin/config/validate", wanted)[1]["valid"])
                for method, path in (
                    ("POST", "/connectors/x"),
                    ("PUT", "/connectors/x"),
                    ("PUT", "/connectors/route"),
                ):
                    status, refused = worker.ask(method, path, wanted)
                    told = "sql = 'a = 1': source broker east-a does not filter by SQL92"
                    assert status == 400
                    (line,) = refused["errors"]
                    assert line.startswith(told)
            await until(lambda: worker.ask("PUT", "/plugin/config/validate", wanted)[1]["valid"])
            assert worker.ask("POST", "/connectors/x", wanted)[0] == 201


async def test_changes_wait_while_tasks_change_hands(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """A worker that stands still does not take over a new assignment: 409, and when to ask again."""
    source, target = await clusters.pair(EAST, WEST)
    await create_topic(source, topic_name("t"), queues=1)
    flags = ("--topics", topic_name("t"), "--session-timeout", "60")
    async with workers_of(source, target, tmp_path, 2, *flags) as (first, second):
        await until(lambda: first.running + second.running, what="one has it")
        await until(partial(_settled, first), what="nothing changes hands any more")
        second.signal(signal.SIGSTOP)
        before = _generation(first)
        try:
            async with Worker(source, target, tmp_path / "third", "--worker-id", "third", *flags):
                await until(lambda: _generation(first) > before, what="the third one is to have tasks")
                request = urllib.request.Request(
                    f"http://127.0.0.1:{first.port}/connectors/route/pause", method="PUT"
                )
                with pytest.raises(urllib.error.HTTPError) as caught:
                    await asyncio.to_thread(urllib.request.urlopen, request, timeout=20)
                with caught.value as refused:
                    assert (refused.code, refused.headers["Retry-After"]) == (409, "1")
                    assert json.loads(refused.read())["body"]["errors"] == ["a rebalance is under way"]
                assert _state(first) == "RUNNING"
                second.signal(signal.SIGCONT)
                await until(partial(_settled, first), what="the second one has followed")
                assert first.ask("PUT", "/connectors/route/pause")[0] == 200
        finally:
            second.signal(signal.SIGCONT)


def _generation(worker: Worker) -> int:
    return int(worker.ask("GET", "/getClusterInfo")[1]["generation"])
