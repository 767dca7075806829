"""Connectors: who may change them, and what a worker's command line may not undo."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.testing import capture_logs

from replicator.errors import ConfigError
from replicator.plugins.limits import ConnectorLimits
from replicator.settings import RouteSettings
from replicator.state.connector import State
from replicator.state.connector_configs import Connectors, Exists, Unknown
from replicator.state.record import Kind, Record, Version
from replicator.state.record_types import fit
from replicator.state.store import Store
from tests.support.packages import install_plain

LIMITS = ConnectorLimits(file_dir=Path("/"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    made.state.worker = "w"
    yield made
    made.close()


@pytest.fixture
def connectors(store: Store) -> Connectors:
    return Connectors(store, LIMITS)


def test_the_command_line_brings_a_connector_and_changes_its_own(connectors: Connectors) -> None:
    connectors.bring("route", RouteSettings(topics="a"))
    connectors.set_state("route", State.PAUSED)
    with capture_logs() as logs:
        connectors.bring("route", RouteSettings(topics="b"))
    assert logs[0]["differ"] == ["topics"]
    assert connectors.get("route").config["topics"] == ["b"]
    assert connectors.get("route").state is State.PAUSED


def test_the_command_line_does_not_undo_rest(connectors: Connectors) -> None:
    connectors.bring("route", RouteSettings(topics="a"))
    connectors.update("route", {"topics": "b"})
    with capture_logs() as logs:
        connectors.bring("route", RouteSettings(topics="a"))
    assert "changed over REST" in logs[0]["event"]
    assert connectors.get("route").config["topics"] == ["b"]
    connectors.delete("route")
    with capture_logs() as logs:
        connectors.bring("route", RouteSettings(topics="a"))
    assert "not created again" in logs[0]["event"]
    assert not connectors.all()
    connectors.create("route", {"topics": "a"})
    assert connectors.get("route").state is State.RUNNING


def test_a_deleted_connector_leaves_nothing(connectors: Connectors, store: Store) -> None:
    connectors.create("one", {"topics": "a"})
    connectors.create("one-more", {"topics": "a"})
    for name in ("one", "one-more"):
        store.put(Kind.TASK, f"{name}/a", {"queues": {}})
        store.put(Kind.POSITION, f"{name}/a/b/0", {"position": 1})
    connectors.delete("one")
    connectors.delete("one")
    assert list(store.state.items(Kind.TASK)) == ["one-more/a"]
    assert list(store.state.items(Kind.POSITION)) == ["one-more/a/b/0"]


def test_a_connector_made_again_is_another_one(connectors: Connectors) -> None:
    first = connectors.create("one", {"topics": "a"})
    connectors.delete("one")
    assert connectors.create("one", {"topics": "a"}).epoch != first.epoch


@pytest.mark.parametrize("state", State)
def test_a_restart_leaves_the_state_as_it_is(connectors: Connectors, state: State) -> None:
    before = connectors.create("one", {"topics": "a"})
    connectors.set_state("one", state)
    after = connectors.restart("one")
    assert (after.state, after.epoch) == (state, before.epoch + 1)


def test_a_failover_is_remembered(connectors: Connectors) -> None:
    """Over a resume: what was stored before it comes late whenever it comes. Tasks start again."""
    connectors.bring("route", RouteSettings())
    stopped = connectors.fail_over("route", 1234, alone=False)
    assert (stopped.state, stopped.failed_over, stopped.epoch) == (State.STOPPED, 1234, 1)
    resumed = connectors.set_state("route", State.RUNNING)
    assert (resumed.failed_over, resumed.epoch) == (1234, 1)
    assert connectors.get("route").failed_over == 1234


def test_a_task_is_restarted_alone_until_all_are(connectors: Connectors) -> None:
    before = connectors.create("one", {"topics": "a"})
    connectors.restart_task("one", "a")
    connectors.restart_task("one", "a")
    connectors.set_state("one", State.PAUSED)
    after = connectors.update("one", {"topics": "a", "rate_messages": 5})
    assert (after.epoch, after.task_epochs) == (before.epoch, {"a": 2})
    assert connectors.restart("one").task_epochs == {}
    with pytest.raises(Unknown, match="there is no connector 'two'"):
        connectors.restart_task("two", "a")


def test_creating_twice_the_same_is_no_conflict(connectors: Connectors) -> None:
    connectors.create("one", {"topics": "a"})
    assert connectors.create("one", {"topics": "a"}).config["topics"] == ["a"]
    with pytest.raises(Exists, match="another configuration"):
        connectors.create("one", {"topics": "b"})
    with pytest.raises(Unknown, match="there is no connector 'two'"):
        connectors.restart("two")


def test_all_mistakes_are_told_at_once(connectors: Connectors) -> None:
    with pytest.raises(ConfigError) as caught:
        connectors.create("a/b", {"on_gap": "maybe", "tags": "x", "sql": "y", "namesrv": "a:1"})
    assert len(caught.value.message.splitlines()) == 3
    assert not connectors.all()


def test_transforms_that_take_no_waiting_messages(
    connectors: Connectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused where these are parked, beside all other mistakes; by default none are."""
    install_plain(tmp_path / "site", "transforms_of_connectors")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ConfigError) as caught:
        connectors.create("ab", {"on_gap": "maybe", "transforms": "plain", "sync": "topics, pending"})
    first, second = caught.value.message.splitlines()
    assert first.startswith("on_gap")
    assert second.startswith(
        "transforms = 'plain' takes no messages that wait at their broker, and sync has pending"
    )
    connectors.create("ab", {"transforms": "plain"})


def test_what_a_later_program_configured_is_told_and_not_run(connectors: Connectors, store: Store) -> None:
    value = {"config": {"topics": ["a"], "new": 1}, "state": "RUNNING", "origin": "rest", "epoch": 0}
    store.merge(Record(Kind.CONNECTOR, "odd", Version(9, "x"), value))
    with capture_logs() as logs:
        assert not connectors.all()
        assert not connectors.all()
    assert [entry["connector"] for entry in logs] == ["odd"]


def test_a_connector_of_another_class_is_kept_with_it(connectors: Connectors, store: Store) -> None:
    config = {"connector.class": "file-source", "filename": "/in", "connect.topicname": "t"}
    made = connectors.create("file", config)
    assert (made.type, made.config) == ("SOURCE", config)
    again = Connectors(store, LIMITS).get("file")
    assert again == made
    assert connectors.create("file", config) == made
    with pytest.raises(Exists):
        connectors.create("file", {"topics": "a"})
    assert connectors.update("file", {"topics": "a"}).type == "ROUTE"
    connectors.update("file", config)
    with capture_logs() as logs:
        connectors.bring("file", RouteSettings(topics="a"))
    assert "connector.class" in logs[0]["differ"]
    assert connectors.get("file") == made


def test_each_change_is_logged_with_what_it_was(connectors: Connectors) -> None:
    with capture_logs(processors=[merge_contextvars]) as logs:
        connectors.create("one", {"topics": "a"})
        connectors.update("one", {"topics": "b"})
        connectors.update("one", {"topics": "b"})
        for state in (State.PAUSED, State.PAUSED, State.STOPPED, State.RUNNING):
            connectors.set_state("one", state)
        connectors.restart("one")
        connectors.delete("one")
        connectors.bring("route", RouteSettings(topics="a"))
    assert [each["event"] for each in logs] == [
        "connector created",
        "connector has a new configuration",
        "connector paused",
        "connector stopped",
        "connector resumed",
        "connector restarted",
        "connector deleted",
        "connector created",
    ]
    assert [each["connector"] for each in logs] == ["one"] * 7 + ["route"]
    assert logs[1]["differ"] == ["topics"]
    assert (logs[1]["before"], logs[1]["after"]) == ({"topics": ["a"]}, {"topics": ["b"]})
    assert [each["before"] for each in logs[2:5]] == ["RUNNING", "PAUSED", "STOPPED"]
    assert logs[-1]["actor"] == "the worker's own settings"


def test_a_file_that_was_changed_is_logged_with_both_values(connectors: Connectors) -> None:
    """Who has mistyped a name sees it; a list of thousands is cut."""
    connectors.bring("route", RouteSettings(topics="orders,payments"))
    with capture_logs() as logs:
        connectors.bring("route", RouteSettings(topics="orders,paymnts"))
        connectors.bring("route", RouteSettings(topics=[f"topic-{n}" for n in range(1000)]))
    assert logs[0]["before"] == {"topics": ["orders", "payments"]}
    assert logs[0]["after"] == {"topics": ["orders", "paymnts"]}
    assert len(logs[1]["after"]["topics"]) < 600


def test_what_another_worker_was_asked_for_is_logged_here_too(connectors: Connectors, store: Store) -> None:
    """Once; what was there before this worker came is not news."""
    made = connectors.create("one", {"topics": "a"})
    value = {"config": made.config, "state": "RUNNING", "origin": "rest", "epoch": 0}
    changes = [
        value | {"state": "PAUSED"},
        value | {"epoch": 1},
        value | {"epoch": 1, "task_epochs": {"a": 1}},
        value | {"epoch": 1, "task_epochs": {"a": 1}, "config": made.config | {"topics": ["b"]}},
        None,
    ]
    with capture_logs() as logs:
        connectors.all()
        for counter, change in enumerate(changes, start=10):
            store.state.merge(Record(Kind.CONNECTOR, "one", Version(counter, "w9"), change))
            connectors.all()
            connectors.all()
    assert [(each["event"], each["worker"], each["change"]) for each in logs] == [
        ("connector changed at another worker", "w9", "RUNNING -> PAUSED"),
        ("connector changed at another worker", "w9", "restart"),
        ("connector changed at another worker", "w9", "restart of a"),
        ("connector changed at another worker", "w9", "configuration: topics"),
        ("connector changed at another worker", "w9", "deleted"),
    ]


def test_who_asked_for_it_at_another_worker_and_why(connectors: Connectors, store: Store) -> None:
    """As that worker logs it. Nobody has asked for it here, so this worker tells no others of it."""
    connectors.create("one", {"topics": "a"})
    with bound_contextvars(actor="REST 10.0.0.7 (operate)"), capture_logs() as logs:
        connectors.set_state("one", State.STOPPED, reason="a failover switches to the target")
        connectors.fail_over("one", 1_700_000_000_000, alone=False)
        connectors.set_state("one", State.RUNNING)
    reasons = ["a failover switches to the target", "its source is declared dead", None]
    assert [each.get("reason") for each in logs] == reasons
    record = store.state.record(Kind.CONNECTOR, "one")
    assert record is not None
    fit(Kind.CONNECTOR, "one", [*record.version], record.value, now=time.time())
    older = {name: value for name, value in record.value.items() if name not in ("by", "reason")}
    stopped = record.value | {"state": "STOPPED", "reason": "a failover switches to the target"}
    connectors.all()
    with capture_logs() as logs:
        for counter, value in enumerate([stopped, record.value, older | {"state": "PAUSED"}], start=90):
            store.state.merge(Record(Kind.CONNECTOR, "one", Version(counter, "w9"), value))
            connectors.all()
    who = {"asked_by": "REST 10.0.0.7 (operate)"}
    said = [
        {name: each[name] for name in ("asked_by", "reason", "actor") if name in each}
        for each in logs
        if each["event"] == "connector changed at another worker"
    ]
    assert said == [who | {"reason": "a failover switches to the target"}, who, {}]


OVERTAKEN = "connector was changed by two workers at once: the other's change is in force, this one's is not"


@pytest.mark.parametrize("looked", [True, False], ids=["seen before", "in one go"])
def test_a_change_that_another_worker_did_not_know_of_is_not_lost_silently(
    connectors: Connectors, store: Store, looked: bool
) -> None:
    """Only if the other's comes later; its author logs that in the other case."""
    made = connectors.create("one", {"topics": "a"})
    base = store.state.record(Kind.CONNECTOR, "one")
    assert base is not None
    connectors.update("one", {"topics": "b"})
    if looked:
        connectors.all()
    own = store.state.record(Kind.CONNECTOR, "one")
    assert own is not None
    assert own.value["after"] == [*base.version]
    other = own.value | {"config": made.config, "state": "PAUSED"}
    with capture_logs() as logs:
        store.state.merge(Record(Kind.CONNECTOR, "one", Version(own.version.counter, "w9"), other))
        connectors.all()
        connectors.all()
    (told,) = [each for each in logs if each["event"] == OVERTAKEN]
    assert (told["worker"], told["state"], told["differ"]) == ("w9", "RUNNING -> PAUSED", ["topics"])


def test_changes_one_after_the_other_are_none_at_once(connectors: Connectors, store: Store) -> None:
    connectors.create("one", {"topics": "a"})
    own = store.state.record(Kind.CONNECTOR, "one")
    assert own is not None
    with capture_logs() as logs:
        for counter in (10, 11):
            after = {"after": [*own.version]} if counter == 10 else {}  # another may run an older program
            store.state.merge(Record(Kind.CONNECTOR, "one", Version(counter, "w9"), own.value | after))
            connectors.all()
        store.state.merge(Record(Kind.CONNECTOR, "one", Version(12, "w9"), None))
        connectors.all()
    assert OVERTAKEN not in [each["event"] for each in logs]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"acl": {"admins": True}}, "acl.admins cannot be set for a connector"),
        ({"acl": {"source_dir": "/loot"}}, "acl.source_dir cannot be set for a connector"),
        ({"acl.admins": True}, "acl.admins cannot be set for a connector"),
        ({"store_path": "/loot"}, "store_path cannot be set for a connector"),
        ({"source": {"namesrv": "evil:1"}}, "source.namesrv cannot be set for a connector"),
        ({"file_connector_dir": "/"}, "file_connector_dir cannot be set for a connector"),
        ({"worker_group_secret_file": "/x"}, "worker_group_secret_file cannot be set for a connector"),
        ({"sync": ["acl"]}, "sync has acl, which the settings of this worker do not have"),
    ],
)
def test_what_only_the_worker_decides_is_refused_by_name(
    connectors: Connectors, config: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        connectors.create("evil", {"topics": "a", **config})
    (told,) = caught.value.message.splitlines()
    assert told.startswith(named)
    assert "settings of" in told


def test_records_cannot_say_it_either(connectors: Connectors, store: Store) -> None:
    """Only their accounts wait: all else of the route goes on while workers get the setting one after the other."""

    def record(name: str, config: dict[str, Any]) -> None:
        value = {"config": config, "state": "RUNNING", "origin": "rest", "epoch": 0}
        store.merge(Record(Kind.CONNECTOR, name, Version(9, "x"), value))

    record("one", {"topics": ["a"], "acl": {"admins": True}})
    record("two", {"topics": ["b"], "sync": ["acl"]})
    with capture_logs() as logs:
        assert connectors.all().keys() == {"two"}
    assert "acl.admins cannot be set for a connector: set it in" in logs[0]["reason"]


def test_file_connectors_are_off_unless_the_worker_has_a_directory_for_them(store: Store, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "out").symlink_to(tmp_path)

    def config(path: Path) -> dict[str, str]:
        return {"connector.class": "file-sink", "filename": str(path), "connect.topicnames": "t"}

    with pytest.raises(ConfigError, match="file connectors are off at this worker: set file_connector_dir"):
        Connectors(store).create("sink", config(files / "a"))
    limited = Connectors(store, ConnectorLimits(file_dir=files))
    for path in (
        tmp_path / "a",
        files / ".." / "a",
        files / "out" / "a",
        Path("/etc/passwd"),
        tmp_path / "files2",
    ):
        with pytest.raises(ConfigError, match="is not inside file_connector_dir"):
            limited.create("sink", config(path))
    limited.create("sink", config(files / "deep" / "a"))
    assert Connectors(store).all() == {}, "a record does not switch them on"


@pytest.mark.parametrize("pattern", ["a{99999999999999999999}", "(" * 3000 + ")" * 3000, "("])
@pytest.mark.parametrize("field", ["topics", "exclude_topics", "sync_groups", "exclude_groups"])
def test_a_record_with_a_pattern_that_nothing_compiles_ends_no_worker(
    connectors: Connectors, store: Store, field: str, pattern: str
) -> None:
    """Neither when it is read nor at the next start; the others run on."""
    connectors.bring("route", RouteSettings(topics="a"))
    value = {"config": {"topics": ["b"], field: [pattern]}, "state": "RUNNING", "origin": "rest", "epoch": 0}
    assert store.merge(Record(Kind.CONNECTOR, "evil", Version(1, "evil"), value))
    with capture_logs() as logs:
        assert [*connectors.all()] == ["route"]
    assert "not understood" in logs[0]["event"]
    assert len(logs[0]["reason"]) < 300
    assert [*Connectors(store, LIMITS).all()] == ["route"]
