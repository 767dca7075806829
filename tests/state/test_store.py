"""The store: one process at a time, what was saved is restored, and a clean end is believed once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from replicator.errors import StartupError
from replicator.routing.offset_map import Interval, OffsetMap
from replicator.routing.queue_map import Queue
from replicator.routing.state import QueueState
from replicator.state import state_file
from replicator.state.record import Kind, Record, Version
from replicator.state.store import Store
from tests.support.records import CONNECTOR

SOURCE, TARGET = Queue("east/a", 3), Queue("west-a", 5)
STOPPED = CONNECTOR | {"state": "STOPPED"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "store"


def state(
    *, topic: str = "T", source: Queue = SOURCE, position: int | None = 20, clean: bool = False
) -> QueueState:
    made = QueueState(topic, source, TARGET)
    made.progress.position = position
    made.progress.start = 2
    made.progress.store_timestamp = 1700000000000
    made.progress.target_floor = 7
    made.progress.clean = clean
    made.progress.offsets = OffsetMap([Interval(2, 100, 10), Interval(15, 110, 5)])
    return made


def saved(directory: Path, *states: QueueState) -> None:
    store = Store(directory)
    store.update(states)
    store.write(store.snapshot())
    store.close()


def restored(store: Store, like: QueueState) -> tuple[QueueState, bool]:
    made = QueueState(like.topic, like.source, like.target)
    return made, store.restore(made)


def test_what_others_have_copied_counts_on(directory: Path) -> None:
    """Over owners and processes; a record of before, which does not say it, counts from zero."""
    first = state()
    first.counters.copied = 15
    saved(directory, first)
    store = Store(directory)
    second, _ = restored(store, first)
    assert (second.counters.copied, second.counters.copied_in_all) == (0, 15)
    second.progress.position, second.counters.copied = 25, 5
    store.update([second])
    third, _ = restored(store, first)
    assert third.counters.copied_in_all == 20
    store.put(Kind.POSITION, "/T/east/a/3", {"position": 30, "start": 2})
    assert restored(store, first)[0].counters.copied_in_all == 0
    store.close()


def same(one: QueueState, other: QueueState) -> bool:
    names = ("position", "start", "store_timestamp", "target_floor", "clean")
    mine, theirs = one.progress, other.progress
    return all(getattr(mine, name) == getattr(theirs, name) for name in names) and [*mine.offsets] == [
        *theirs.offsets
    ]


def test_what_was_saved_is_restored(directory: Path) -> None:
    """Position, start, timestamp, floor and the whole offset map; a queue never seen has none of it."""
    saved(directory, state(), state(topic="T2", position=3))
    store = Store(directory)
    for like in (state(), state(topic="T2", position=3)):
        made, seen = restored(store, like)
        assert seen
        assert same(made, like)
    made, seen = restored(store, state(source=Queue("other", 3)))
    assert not seen
    assert made.progress.position is None
    store.close()


RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.integers(0, 2**62), st.integers(0, 2**62), st.booleans(), RUNS)
def test_any_progress_survives(
    directory: Path, position: int, floor: int, clean: bool, runs: list[tuple[int, int, int]]
) -> None:
    """To the last offset."""
    like = state(position=position, clean=clean)
    like.progress.target_floor = floor
    like.progress.offsets = OffsetMap()
    source = target = 0
    for source_gap, target_gap, length in runs:
        like.progress.offsets.add(source + source_gap, target + target_gap, length)
        source, target = source + source_gap + length, target + target_gap + length
    saved(directory, like)
    store = Store(directory)
    made, seen = restored(store, like)
    store.close()
    assert seen
    assert same(made, like)


def test_a_queue_without_a_position_is_not_saved(directory: Path) -> None:
    """It has not begun; it would look as if it had."""
    saved(directory, state(position=None))
    store = Store(directory)
    assert not restored(store, state())[1]
    store.close()


def test_queue_maps_survive(directory: Path) -> None:
    """Brokers with slashes in their names too; a new map replaces the old one of that topic only."""
    store = Store(directory)
    first = {Queue("east/a", 0): Queue("west-a", 0), Queue("east/a", 1): Queue("west-a", 1)}
    store.save_queue_map("r", "T", "copy-of-T", first)
    store.save_queue_map("r", "U", "U", {})
    larger = {**first, Queue("b", 0): Queue("west-a", 2)}
    store.save_queue_map("r", "T", "copy-of-T", larger)
    assert store.queue_maps("r") == {"T": larger, "U": {}}
    store.write(store.snapshot())
    store.close()
    store = Store(directory)
    assert store.queue_maps("r") == {"T": larger, "U": {}}
    store.close()
    document = json.loads((directory / "taskConfig.json").read_text())
    assert document["content"]["task"]["r/T"]["value"]["target_topic"] == "copy-of-T"


def test_the_identity_survives(directory: Path) -> None:
    """Ids that must stay the same from run to run."""
    store = Store(directory)
    assert store.identity() == {}
    store.save_identity({"source_id": "east", "worker": "w"})
    store.close()
    store = Store(directory)
    assert store.identity() == {"source_id": "east", "worker": "w"}
    store.close()


def test_records_survive_with_their_versions(directory: Path) -> None:
    """So that what is older is not taken for news after a restart, nor what was deleted for alive."""
    store = Store(directory)
    store.state.worker = "w1"
    store.put(Kind.CONNECTOR, "c", CONNECTOR)
    store.put(Kind.CONNECTOR, "gone", None)
    store.put_version(Kind.ASSIGNMENT, "", Version(7, "w1"), {"members": [], "owners": {}})
    store.write(store.snapshot())
    store.close()
    store = Store(directory)
    assert store.state.get(Kind.CONNECTOR, "c") == CONNECTOR
    assert not store.merge(Record(Kind.CONNECTOR, "gone", Version(1, "w9"), CONNECTOR))
    assert not store.merge(Record(Kind.ASSIGNMENT, "", Version(6, "w9"), None))
    assert store.merge(Record(Kind.ASSIGNMENT, "", Version(8, "w0"), None))
    store.close()


def test_only_our_own_changes_are_published(directory: Path) -> None:
    """Once, unless they could not be; what somebody has replaced meanwhile is not."""
    store = Store(directory)
    store.state.worker = "w1"
    store.merge(Record(Kind.STATUS, "w2", Version(3, "w2"), {}))
    store.put(Kind.STATUS, "w1", {"a": 1})
    store.put(Kind.STATUS, "w1", {"a": 2})
    (record,) = store.take_unpublished()
    assert (record.value, record.version) == ({"a": 2}, Version(5, "w1"))
    assert store.take_unpublished() == []
    store.untake([record])
    assert store.merge(Record(Kind.STATUS, "w1", Version(9, "w2"), {}))
    assert store.take_unpublished() == []
    store.close()


def test_what_was_kept_is_told_after_a_restart_unless_somebody_has(directory: Path) -> None:
    """A stop of a connector that could not be published, say, because the source was dead."""
    store = Store(directory)
    store.state.worker = "w1"
    for name in ("stopped", "known", "changed"):
        store.put(Kind.CONNECTOR, name, STOPPED)
    known = store.state.record(Kind.CONNECTOR, "known")
    assert known is not None
    store.write(store.snapshot())
    store.close()
    store = Store(directory)
    assert not store.merge(known)
    assert store.merge(Record(Kind.CONNECTOR, "changed", Version(9, "w2"), CONNECTOR))
    (told,) = store.take_unpublished()
    assert (told.key, told.value) == ("stopped", STOPPED)
    store.close()


def test_the_first_owner_of_a_fresh_target_need_not_wait(directory: Path) -> None:
    """Nobody can have sent there before; once it has begun, the next one cannot know that."""
    store = Store(directory)
    store.save_queue_map("r", "T", "T", {SOURCE: TARGET}, fresh=[SOURCE])
    made = QueueState("T", SOURCE, TARGET, route="r")
    assert not store.restore(made)
    assert made.progress.clean
    store.begin([made])
    again = QueueState("T", SOURCE, TARGET, route="r")
    assert not store.restore(again)
    assert not again.progress.clean
    store.close()


def test_queues_that_came_late_stay_known(directory: Path) -> None:
    """They are copied from their first message, whenever that is."""
    store = Store(directory)
    store.save_queue_map("r", "T", "T", {SOURCE: TARGET})
    later = Queue("east/a", 4)
    store.save_queue_map("r", "T", "T", {SOURCE: TARGET, later: Queue("west-a", 6)}, late=[later])
    store.save_queue_map("r", "T", "T", {SOURCE: TARGET, later: Queue("west-a", 6)})
    assert store.begins_late("r", "T", later)
    assert not store.begins_late("r", "T", SOURCE)
    assert not store.begins_late("r", "other", SOURCE)
    store.close()


def test_a_clean_end_is_believed_once(directory: Path) -> None:
    """Even if the process that believes it dies at once."""
    saved(directory, state(clean=True), state(topic="U", clean=False))
    first = Store(directory)
    assert restored(first, state())[0].progress.clean
    assert not restored(first, state(topic="U"))[0].progress.clean
    first.close()
    second = Store(directory)
    assert not restored(second, state())[0].progress.clean
    assert restored(second, state())[0].progress.position == 20
    second.close()


def test_what_killed_processes_left_half_written_is_cleared(directory: Path) -> None:
    """Else it would pile up; files that were set aside stay."""
    saved(directory, state())
    (directory / ".offset.json.4711.17").write_text('{"version":')
    (directory / "offset.json.corrupt-20260131T060000").write_text("kept")
    Store(directory).close()
    assert {path.name for path in directory.iterdir()} == {
        ".lock",
        "offset.json",
        "position.json",
        "offset.json.corrupt-20260131T060000",
    }


def test_only_its_owner_may_look(directory: Path) -> None:
    """The directory and all files in it."""
    saved(directory, state())
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


def test_two_in_one_process_are_refused(directory: Path) -> None:
    """Until the first is closed."""
    store = Store(directory)
    with pytest.raises(StartupError, match="in use by another replicator") as caught:
        Store(directory)
    assert str(directory) in str(caught.value)
    assert "another store_path" in caught.value.hint
    store.close()
    Store(directory).close()


HOLD = """
import sys
from pathlib import Path
from replicator.state.store import Store
store = Store(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_is_killed(directory: Path) -> None:
    """The lock goes with its process, so no stale one can be left."""
    command = [sys.executable, "-c", HOLD, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            with pytest.raises(StartupError, match="in use"):
                Store(directory)
        finally:
            process.kill()
    Store(directory).close()


def test_offsets_are_written_before_positions(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash between them no position is ahead of what is known to be acknowledged."""
    written: list[str] = []
    store = Store(directory)
    store.update([state()])
    monkeypatch.setattr(state_file, "write", lambda path, _content: written.append(path.name))
    store.write(store.snapshot())
    assert written == ["offset.json", "position.json"]
    store.close()


@pytest.mark.parametrize("name", ["position.json", "offset.json", "taskConfig.json"])
def test_a_corrupt_file_is_set_aside_and_the_others_are_used(directory: Path, name: str) -> None:
    """What it said is read from the target instead."""
    store = Store(directory)
    store.save_queue_map("r", "T", "T", {SOURCE: TARGET})
    store.write(store.snapshot())
    store.close()
    saved(directory, state())
    path = directory / name
    path.write_bytes(path.read_bytes()[:-20])
    with capture_logs() as logs:
        store = Store(directory)
    assert [entry["file"] for entry in logs] == [str(path)]
    made, seen = restored(store, state())
    assert seen == (name != "position.json")
    assert bool(made.progress.offsets.last) == (name != "offset.json")
    assert bool(store.queue_maps("r")) == (name != "taskConfig.json")
    store.close()


def test_a_newer_store_is_refused_and_not_kept_locked(directory: Path) -> None:
    """The newer program can use it at once."""
    saved(directory, state())
    (directory / "offset.json").write_text('{"version":99,"sha256":"","content":{}}')
    for _ in range(2):
        with pytest.raises(StartupError, match="version 99"):
            Store(directory)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """With its name and the way out."""
    (tmp_path / "file").write_text("blockers")
    with pytest.raises(StartupError, match=r"store_path = .*file/store' cannot be used") as caught:
        Store(tmp_path / "file" / "store")
    assert "can write" in caught.value.hint


def test_a_directory_that_cannot_be_written_is_told(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything starts, and without a traceback; the lock is let go."""
    saved(directory, state(clean=True))

    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as context:
        context.setattr(state_file, "write", read_only)
        with pytest.raises(StartupError, match="cannot be written"):
            Store(directory)
    Store(directory).close()


def test_a_failed_flush_keeps_everything_in_memory(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one writes it."""
    store = Store(directory)
    store.update([state()])
    with monkeypatch.context() as context:
        context.setattr(os, "fsync", lambda _descriptor: (_ for _ in ()).throw(OSError(28, "No space left")))
        with pytest.raises(OSError, match="No space"):
            store.write(store.snapshot())
    store.write(store.snapshot())
    store.close()
    store = Store(directory)
    assert same(restored(store, state())[0], state())
    store.close()


def test_progress_of_a_deleted_connector_is_none_of_the_next(directory: Path) -> None:
    """Its tasks may drain elsewhere when the next one of its name is there, and have not been told yet."""
    store, before = Store(directory), QueueState("T", SOURCE, TARGET, route="route")
    before.progress.position = before.progress.start = 20
    store.update([before])
    late = [*store.state.records(Kind.OFFSET), *store.state.records(Kind.POSITION)]
    store.put(Kind.CONNECTOR, "route", CONNECTOR | {"made": 7})
    before.progress.position = 30  # what drains meanwhile
    store.update([before])
    for record in late:  # published by its owner after the deletion
        store.merge(record._replace(version=Version(10**6, "w9")))
    after = QueueState("T", SOURCE, TARGET, route="route")
    assert (store.restore(after), after.progress.position) == (False, None)
    after.progress.position = after.progress.start = 5
    store.update([after])
    store.merge(late[1]._replace(version=Version(10**7, "w9")))  # and again, while nothing flows
    store.update([after])
    assert store.restore(QueueState("T", SOURCE, TARGET, route="route"))
