"""The switch: what is done in which order, and how long a look at a dead source takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.admin import failover as under_test
from replicator.admin import running_tasks, topic_lag
from replicator.admin.failover_turn import decided_by_hand
from replicator.admin.topic_lag import topic_lags
from replicator.aio.clock import now
from replicator.connector.context import ConnectorContext
from replicator.connector.route import Route
from replicator.errors import ConfigError, Unreachable
from replicator.operate.workers import sync as commands
from replicator.routing.queue_map import Queue
from replicator.settings import RouteSettings
from replicator.state.known_brokers import being_given_up, record_value
from replicator.state.record import Kind
from tests.admin.failover_setup import TOPICS, Reader, Setup


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    made = Setup()
    monkeypatch.setattr(topic_lag, "max_offset", made.end)
    monkeypatch.setattr(topic_lag, "min_offset", made.end)
    monkeypatch.setattr(running_tasks, "_SECONDS", 0.01)
    monkeypatch.setattr(running_tasks, "_POLL_INTERVAL", 0.001)
    monkeypatch.setattr(under_test, "_POLL_INTERVAL", 0.001)
    return made


async def test_a_dead_broker_is_not_asked_for_every_queue(setup: Setup) -> None:
    """Each attempt to reach it takes seconds: those that are under way share one, and the rest take its failure."""
    problems = await setup.lags()
    assert all("dead cannot be reached" in problem for problem in problems)
    assert setup.asked < TOPICS / 2


async def test_a_look_ends_in_time(setup: Setup) -> None:
    assert all("not enough time" in problem for problem in await setup.lags(patience=0))
    assert setup.told == []


@pytest.mark.parametrize(("late", "missing"), [(False, 0), (True, 7)])
async def test_of_a_queue_that_came_later_all_is_missing(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, *, late: bool, missing: int
) -> None:
    """Also where the route began with the latest message: such a queue is copied from its first one on."""

    async def end(*_: object) -> int:
        return 7

    async def counted(_: object, __: object, begin: int, stop: int) -> Any:
        return topic_lag._Lag(stop - begin)

    monkeypatch.setattr(topic_lag, "max_offset", end)
    monkeypatch.setattr(topic_lag._Source, "_count", counted)
    setup.route.settings = RouteSettings(start_from="latest")
    setup.late = {("route", "T1", Queue("alive", 0))} if late else set()
    lags = await topic_lags(cast("Route", setup.route), cast("ConnectorContext", setup.context))
    assert [each["messages"] for each in lags[:3]] == [0, missing, 0]


async def test_a_source_that_is_given_up_is_left_first(setup: Setup) -> None:
    """Before anybody asks what it has."""
    report = await setup.switch(source_dead=True)
    assert (setup.told[0], setup.told[-1]) == ("STOPPED", "handed over")
    setup.worker.may_send = lambda: False
    setup.told.clear()
    await setup.switch(source_dead=True)
    assert setup.told[0] == "STOPPED alone"
    assert (report["stopped"], report["drained"], len(report["missing"])) == (True, False, TOPICS)
    assert report["synced"]["groups"] == [{"group": "readers", "queues": 8}]
    (unknown,) = report["missing"][0]["unknown_queues"]
    assert unknown == {"broker": "dead", "queue": 0, "position": None, "copied_until": None}


async def test_nothing_is_handed_over_while_tasks_copy(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor if the source is given up, while a worker that reaches the target says there that it copies."""
    setup.worker.coordinator.running = {"route/T1"}
    report = await setup.switch()
    assert "handed over" not in setup.told
    assert not report["stopped"]
    assert "offsets and topics are left as they are" in report["problems"][0]
    setup.worker.coordinator.running = set()
    setup.worker.seen_at_target = {"w2": SimpleNamespace(tasks={"route/T1": "RUNNING"}, releasing=())}
    report = await setup.switch(source_dead=True)
    assert "handed over" not in setup.told
    assert not report["stopped"]
    assert "Now let" not in str(commands.report_of(report).renderables[-1])
    setup.worker.seen_at_target = {}
    report = await setup.switch(source_dead=True)
    assert setup.told[-1] == "handed over"
    assert "Look at the above" in str(commands.report_of(report).renderables[-1]), "messages are missing"


async def test_a_route_that_is_rebuilt_while_it_drains(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it copies since then is handed over, and what the old one knew is not looked at any more."""
    monkeypatch.setattr(under_test, "Route", SimpleNamespace)
    rebuilt = SimpleNamespace(**vars(setup.route))
    rebuilt.sync = SimpleNamespace(**vars(setup.sync))
    handed: list[str] = []

    async def hand_over(**_: object) -> tuple[list[Any], list[str]]:
        handed.append("rebuilt")
        return [], []

    rebuilt.sync.hand_over = hand_over
    setup.rebuilt = rebuilt
    await setup.switch()
    assert handed == ["rebuilt"]
    assert "handed over" not in setup.told


@pytest.mark.parametrize(
    ("topic", "concerned"),
    [
        *(("T1", True), ("T2", False), ("T11", False)),
        *(
            ("%RETRY%g+T1", True),
            ("%RETRY%g_T1", False),
            ("%RETRY%g+T2", False),
            ("%RETRY%g", False),
            ("%DLQ%g", False),
        ),
    ],
)
def test_with_a_topic_go_the_retries_of_its_pop_consumers(topic: str, *, concerned: bool) -> None:
    some = under_test.FailoverOptions(drain_timeout=0, topics=frozenset({"T1"}))
    assert some.concerns(topic) == concerned
    assert under_test.FailoverOptions(drain_timeout=0).concerns(topic)


async def test_no_removal_of_a_broker_resumes_what_was_failed_over(setup: Setup) -> None:
    """One that was interrupted has it stopped, and knows that it ran."""
    stopped_for_it = record_value(None, {"route": "RUNNING", "other": "RUNNING"})
    setup.state_of_group.put(Kind.BROKER, "target/b", stopped_for_it)
    await setup.switch()
    assert being_given_up(setup.state_of_group) == {"target/b": {"other": "RUNNING"}}


async def test_topics_are_switched_and_the_others_go_on_though_it_had_to_be_repeated(setup: Setup) -> None:
    """Whoever repeats it finds the route stopped, which is not how it was; at the end it is as it was."""

    async def fails() -> None:
        if "STOPPED" in setup.told:
            raise Unreachable("source", "dead")

    setup.source.reader = Reader
    works, setup.worker.changed = setup.worker.changed, fails
    with pytest.raises(Unreachable):
        await setup.switch(topics=frozenset({"T1"}))
    assert setup.told[-1] == "STOPPED"
    setup.worker.changed, setup.state = works, "STOPPED"
    await setup.switch(topics=frozenset({"T1"}))
    assert setup.told[-2:] == [r"without ['T1']", "RUNNING"]
    (audited,) = setup.audited
    assert (audited[0], audited[1]["connector"], audited[1]["topics"]) == (
        "failed over to the target",
        "route",
        ["T1"],
    )
    setup.state = "STOPPED"  # by somebody else meanwhile
    await setup.switch(topics=frozenset({"T2"}))
    assert setup.told[-1] == "STOPPED"


async def test_whoever_decides_otherwise_meanwhile_is_right(setup: Setup) -> None:
    async def hand_over(**_how: Any) -> tuple[list[Any], list[str]]:
        decided_by_hand(setup.sync.ledger)
        return [], []

    setup.sync.hand_over = hand_over
    await setup.switch(topics=frozenset({"T1"}))
    assert "RUNNING" not in setup.told


async def test_nothing_is_handed_over_once_somebody_has_resumed_it(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the failover asks what is missing, which takes minutes; its tasks may not have started yet."""

    async def losses(*_: object) -> list[str]:
        setup.state = "RUNNING"
        return []

    monkeypatch.setattr(under_test, "target_losses", losses)
    for some in (frozenset[str](), frozenset({"T1"})):
        report = await setup.switch(topics=some)
        assert "handed over" not in setup.told
        assert not report["stopped"]
        assert "was resumed or deleted meanwhile" in report["problems"][0]
        assert not setup.kept["failover"].get("opened")


async def test_a_side_that_could_not_be_looked_at_is_a_problem(setup: Setup) -> None:
    """Topics may have been created there of which nobody knows; with the source dead nobody looks."""
    setup.worker.refresher.problems = ["the brokers of the source cannot be looked up"]
    assert (await setup.switch())["problems"] == ["the brokers of the source cannot be looked up"]
    assert (await setup.switch(source_dead=True))["problems"] == []


@pytest.mark.parametrize("resumed", ["state", "tasks", "deleted"])
async def test_a_hand_over_ends_when_somebody_resumes(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, *, resumed: str
) -> None:
    """It is asked before each of its changes; also where only another worker's tasks tell of it, or it is gone."""
    monkeypatch.setattr(under_test, "_POLL_INTERVAL", 0.0)
    let: list[bool] = []

    async def hand_over(*, may_go_on: Any, **_how: Any) -> tuple[list[Any], list[str]]:
        let.append(may_go_on())
        if resumed == "state":
            setup.state = "RUNNING"
        elif resumed == "tasks":
            setup.worker.coordinator.assignment.owners = {"route/T1": "w2"}
        else:
            setup.worker.connectors.all = dict
        let.append(may_go_on())
        setup.state, setup.worker.coordinator.assignment.owners = "STOPPED", {}
        let.append(may_go_on())
        return [], []

    setup.sync.hand_over = hand_over
    report = await setup.switch()
    assert let == [True, False, False], "who resumed it has had it copy, though it is stopped again"
    assert (report["stopped"], len(report["problems"])) == (False, 1)


async def test_a_route_that_was_stopped_whole_does_not_run_again(setup: Setup) -> None:
    """Not even if a failover of some topics before that did not end."""
    setup.kept["failover"] = {"resume": "RUNNING"}
    await setup.switch()
    setup.state = "STOPPED"
    await setup.switch(topics=frozenset({"T1"}))
    assert setup.told[-1] == "STOPPED"


async def test_a_dry_run_changes_nothing(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    """It neither stops the route nor hands over, and its report says so."""
    setup.worker.coordinator.running = {"route/T1"}
    report = await setup.switch(dry_run=True)
    assert "STOPPED" not in setup.told
    assert setup.told[-1] == "would hand over"
    assert (report["dry_run"], report["stopped"], report["problems"]) == (True, False, [])
    assert "nothing was changed" in str(commands.report_of(report).renderables[0])
    setup.source.refresh.side_effect = setup.context.target.cluster.refresh.side_effect = Unreachable("h:1", "no")
    source, target = (await setup.switch(dry_run=True))["problems"]
    assert source.startswith("the brokers of the source cannot be looked up: h:1 cannot be reached (no): ")
    assert target.startswith("the brokers of the target cannot be looked up: h:1 cannot be reached (no): ")
    assert target in (await setup.switch(dry_run=True, source_dead=True))["problems"]


async def test_some_topics_alone(setup: Setup) -> None:
    """The route stops, hands over, and runs again without them; it goes on with them if that failed."""
    report = await setup.switch(topics=frozenset({"T7"}), source_dead=True)
    assert report["topics"] == ["T7"]
    assert [each["topic"] for each in report["missing"]] == ["T7"]
    assert [each for each in setup.told if each != "asked"] == [
        "STOPPED",
        "handed over",
        "without ['T7']",
        "RUNNING",
    ]
    setup.told.clear()
    setup.worker.coordinator.running = {"route/T1"}
    await setup.switch(topics=frozenset({"T7"}), source_dead=True)
    assert [each for each in setup.told if each != "asked"] == ["STOPPED", "RUNNING"]
    setup.told.clear()
    setup.worker.coordinator.running = set()
    setup.state = "STOPPED"
    setup.worker.sees_others = False
    report = await setup.switch(topics=frozenset({"T7"}), source_dead=True)
    assert setup.told[-1] == "STOPPED", "as it was before"
    assert "make sure that none does" in report["problems"][0]


@pytest.mark.parametrize(("ago", "reason", "unseen"), [(0, "", False), (11, "", True), (0, "it is away", True)])
async def test_a_dry_run_sees_others(setup: Setup, ago: float, reason: str, *, unseen: bool) -> None:
    """Though this worker has yet to write something: it decides nothing that others would have to hear."""
    setup.worker.sees_others, heard = False, SimpleNamespace(echo=now() - ago, timeout=10.0)
    setup.worker.mirror = SimpleNamespace(membership=heard, reason=reason, incarnation="i", flush=setup.changed)
    for dry_run in (True, False):  # what is decided has to be heard
        report = str(await setup.switch(dry_run=dry_run, source_dead=True))
        assert ("make sure that none does" in report) == (unseen or not dry_run)


def test_what_is_left_of_a_route() -> None:
    """A topic that is named is named no more, any other is excluded; all of them, or unknown ones, are refused."""
    settings = RouteSettings(topics=["A", "B.*"], exclude_topics=["Bx"])
    under_test.check_topics(settings, {"A", "B1"}, ["A", "B1", "B2"])
    left = under_test.without(settings, {"A", "B1"})
    assert (left.topics, left.exclude_topics) == (["B.*"], ["Bx", "A", "B1"])
    assert under_test.without(left, {"A"}) == left
    under_test.check_topics(settings, set(), ["A"])
    with pytest.raises(ConfigError, match="does not copy C"):
        under_test.check_topics(settings, {"C"}, ["A"])
    with pytest.raises(ConfigError, match="does not copy A, B1 any more"):
        under_test.check_topics(left, {"A", "B1"}, ["B2"])
    with pytest.raises(ConfigError, match="dead-letter topics go with"):
        under_test.check_topics(settings, {"%RETRY%g"}, ["A", "%RETRY%g"])
    with pytest.raises(ConfigError, match="all topics"):
        under_test.check_topics(settings, {"A"}, ["A"])
    only = RouteSettings(topics=["A"])
    assert under_test.without(only, {"A"}).exclude_topics == ["A"], "made so while the failover went on"


async def test_what_the_target_has_lost_is_not_called_copied(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """The position is behind it: nothing is missing, by that alone."""

    async def losses(_copy: object, _context: object) -> list[str]:
        return ["queue T1/b/0: the target has lost messages"]

    monkeypatch.setattr(under_test, "target_losses", losses)
    for dry_run in (True, False):
        report = await setup.switch(dry_run=dry_run)
        assert report["problems"] == ["queue T1/b/0: the target has lost messages"]
        assert not report["drained"]
    setup.told.clear()
    setup.state = "RUNNING"
    await setup.switch(topics=frozenset({"T1"}))
    assert setup.told[-1] == "RUNNING", "which sends again what was lost"
    assert "handed over" not in setup.told
    await setup.switch(topics=frozenset({"T1"}), source_dead=True)
    assert "handed over" in setup.told, "nobody could send it again"


async def test_topics_that_were_opened_are_not_written_to_whoever_repeats_it(setup: Setup) -> None:
    """The first time a topic is opened, and something else goes wrong; then none is left to be opened."""
    opened: Any = [SimpleNamespace(error="", action=SimpleNamespace(kind="topics", key="T1", broker="x"))]

    async def hand_over(**_how: Any) -> tuple[list[Any], list[str]]:
        found, opened[:] = list(opened), []
        return found, ["an offset is not known"]

    setup.sync.hand_over = hand_over
    for state in ("RUNNING", "STOPPED"):
        setup.state = state
        await setup.switch(topics=frozenset({"T1"}))
        assert "RUNNING" not in setup.told


async def test_topics_are_not_written_to_though_what_came_after_their_opening_failed(setup: Setup) -> None:
    """The first time nobody gets to say that they were opened."""
    opened: Any = [SimpleNamespace(error="", action=SimpleNamespace(kind="topics", key="T1", broker="x"))]

    async def hand_over(**_how: Any) -> tuple[list[Any], list[str]]:
        found, opened[:] = list(opened), []
        return found, ["an offset is not known"]

    async def fails() -> list[Any]:
        raise Unreachable("target", "dead")

    setup.sync.hand_over, places, setup.sync.places = hand_over, setup.sync.places, fails
    with pytest.raises(Unreachable):
        await setup.switch(topics=frozenset({"T1"}))
    setup.sync.places, setup.state = places, "STOPPED"
    await setup.switch(topics=frozenset({"T1"}))
    assert "RUNNING" not in setup.told


async def test_what_others_changed_while_it_drained_stays(setup: Setup) -> None:
    """The configuration and the state are those that the connector has when it stops, not when it began."""

    async def hand_over(**_how: Any) -> tuple[list[Any], list[str]]:
        setup.settings = RouteSettings(exclude_topics=["T2"])
        return [], []

    async def drained() -> None:
        setup.state = "PAUSED"

    setup.sync.hand_over, setup.worker.refresher.refresh = hand_over, drained
    await setup.switch(topics=frozenset({"T1"}))
    assert setup.told[-2:] == ["without ['T2', 'T1']", "PAUSED"]


def test_any_number_of_topics_can_be_failed_over_one_by_one() -> None:
    """They are left out by their names, of which there may be many."""
    settings = RouteSettings(topics=[".*"])
    for number in range(1_200):
        left = under_test.without(settings, frozenset({f"team-{number}"}))
        settings = left if number % 400 else RouteSettings(**left.model_dump(mode="json"))
    assert settings.exclude_topics[:2] == ["team-0", "team-1"]
    settings = under_test.without(settings, frozenset({"a|b"}))
    assert settings.exclude_topics[-1] == r"a\|b"
    with pytest.raises(ConfigError, match="does not copy team-7 any more"):
        under_test.check_topics(settings, frozenset({"team-7"}), ["other"])


@pytest.mark.parametrize("how", [{"dry_run": True}, {}, {"source_dead": True}])
async def test_a_deselected_topic(setup: Setup, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]) -> None:
    """It is a problem of the switch of a whole route, which is done all the same."""
    monkeypatch.setattr(under_test, "deselected", lambda *_: ["payments"])
    assert "payments was copied by this route and is not selected" in str((await setup.switch(**how))["problems"])
    assert ("failed_over_at" in setup.kept.get("failover", {})) == (not how.get("dry_run"))
