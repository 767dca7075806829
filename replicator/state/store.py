"""The state of a group as a worker keeps it: `connectorConfig.json`, `taskConfig.json`, `position.json`,
`offset.json`.

- connectorConfig: the group's connectors without secrets, and the ids of both clusters;
- taskConfig: per topic its queue map, append-only, which worker owns which task, and which brokers are forgotten;
- position: per source queue what the source task has settled; what was written of metadata;
- offset: per source queue what the target has acknowledged, as the exact offset map.

Every worker holds all of it and writes what it learns of the others too. Nothing here is needed to be
right: the target's messages are the truth, this shortens the way to it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from replicator.errors import StartupError
from replicator.routing.queue_map import Queue, QueueMap
from replicator.routing.state import QueueState
from replicator.routing.task_id import TaskId
from replicator.state import queue_records, state_file
from replicator.state.encoding import connector_value, encoded
from replicator.state.known_brokers import forgotten
from replicator.state.queue_records import offset_record, position_record
from replicator.state.record import Kind, Record, Version
from replicator.state.record_types import Misfit, fit
from replicator.state.shared_state import SharedState
from replicator.state.skipped_records import SkippedRecords
from replicator.state.topic_record import TopicRecord

__all__ = ["InUse", "Store", "numbered"]

#: Offsets before positions, so that no position is ahead of them after a crash in between.
_FILES: Final[Mapping[str, tuple[Kind, ...]]] = {
    "connectorConfig.json": (Kind.CONNECTOR,),
    "taskConfig.json": (Kind.TASK, Kind.ASSIGNMENT, Kind.CLUSTERS, Kind.BROKER),
    "offset.json": (Kind.OFFSET,),
    "position.json": (Kind.POSITION, Kind.SYNC),
}
_FILES_OF: Final[Mapping[Kind, frozenset[str]]] = {
    kind: frozenset(name for name, kinds in _FILES.items() if kind in kinds) for kind in Kind
}
_IDENTITY: Final = "identity.json"
_LOCK: Final = ".lock"
#: What people have decided and what follows from it: a worker that could not tell it before it ended does so later.
_REPUBLISHED: Final = (Kind.CONNECTOR, Kind.TASK, Kind.SYNC, Kind.BROKER)


class _Held(NamedTuple):
    """What a file has under a key."""

    version: Any
    value: Any


def numbered(path: Path, number: int) -> Path:
    """Where worker `number`, counted from 1, of several that share `path` keeps its state."""
    return path if number == 1 else path.with_name(f"{path.name}-{number}")


class InUse(StartupError):
    """Another process uses the directory."""


class Store:
    """The four files in `directory`, which one process at a time may use, and what they say.

    Raises:
        StartupError: the directory cannot be used, or another process uses it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = SharedState()
        self.skipped = SkippedRecords()
        self._dirty: set[str] = set()
        self._unpublished: dict[tuple[Kind, str], None] = {}
        self._topics: dict[str, tuple[Version, TopicRecord]] = {}
        self._marks: dict[str, object] = {}
        self._encoded: dict[tuple[Kind, str], tuple[Version, bytes]] = {}
        self._made = not directory.exists()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StartupError(
                f"store_path = {str(directory)!r} cannot be used ({error.strerror})",
                hint="name a directory that this user can write",
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise InUse(
                f"store_path = {str(directory)!r} is in use by another replicator",
                hint="stop that one, or give this one another store_path",
            ) from None
        try:
            for half_written in directory.glob(".*.json.*"):  # by a process that was killed then
                half_written.unlink(missing_ok=True)
            self._identity: dict[str, Any] = _texts(state_file.read(directory / _IDENTITY))
            for name in _FILES:
                self._load(name)
            self._unpublished = {(record.kind, record.key): None for record in self.state.records(*_REPUBLISHED)}
            self._forget_clean_end()
        except OSError as error:
            os.close(self._lock)
            raise self._unwritable(error) from None
        except StartupError:
            os.close(self._lock)
            raise

    def _load(self, name: str) -> None:
        content = state_file.read(self.directory / name)
        for kind in _FILES[name]:
            held = content.get(kind, {}) if isinstance(content, dict) else {}
            for key, parts in held.items() if isinstance(held, dict) else ():
                try:
                    found = _Held(**parts) if isinstance(parts, dict) else _Held(None, None)
                    self.state.merge(fit(kind, key, found.version, found.value, now=time.time()))
                except (Misfit, TypeError) as error:
                    self.skipped.add("file", f"{kind} {key}", str(error))

    def _forget_clean_end(self) -> None:
        """Only the first process after a clean end may believe in it, even if it dies at once."""
        ended = [r for r in self.state.records(Kind.OFFSET) if r.value and r.value["clean"]]
        if ended:
            for record in ended:
                unclean = record._replace(value={**record.value, "clean": False})
                self._encoded[Kind.OFFSET, record.key] = (record.version, encoded(unclean))
            state_file.write(self.directory / "offset.json", self._content("offset.json"))
            for record in ended:
                del self._encoded[Kind.OFFSET, record.key]

    def close(self) -> None:
        """Lets another process use the directory; one that was made for nothing is away again."""
        if self._made:
            state_file.remove_unused(self.directory, _LOCK)
        os.close(self._lock)

    # Records.

    def put(self, kind: Kind, key: str, value: Any, *, unseen: int = 0) -> Record:
        """The record of a change of our own, for the next `snapshot` and the next `take_unpublished`.

        Args:
            unseen: as in `SharedState.put`.

        Raises:
            ConfigError: it is a connector that cannot be kept.
        """
        if kind is Kind.CONNECTOR and value is not None:
            value = connector_value(key, value)
        return self._note(self.state.put(kind, key, value, unseen=unseen))

    def put_version(self, kind: Kind, key: str, version: Version, value: Any) -> None:
        """As `put`, under a version that means something by itself."""
        self._note(self.state.put_version(kind, key, version, value))

    def _note(self, record: Record) -> Record:
        self._unpublished[record.kind, record.key] = None
        self._touch(record.kind)
        return record

    def merge(self, record: Record) -> bool:
        """Takes a record that somebody published; whether it was news."""
        news = self.state.merge(record)
        if news:
            self._touch(record.kind)
        if self.state.table(record.kind)[record.key][0] == record.version:
            self._unpublished.pop((record.kind, record.key), None)
        return news

    def _touch(self, kind: Kind) -> None:
        self._dirty |= _FILES_OF[kind]

    def take_unpublished(self) -> list[Record]:
        """Our own changes since the last call; the first time also what was kept here and not published yet."""
        taken, self._unpublished = self._unpublished, {}
        records = (self.state.record(kind, key) for kind, key in taken)
        return [record for record in records if record is not None]

    def untake(self, records: Iterable[Record]) -> None:
        """Those could not be published: they are to be taken again."""
        for record in records:
            self._unpublished[record.kind, record.key] = None

    # What is in them.

    def identity(self) -> dict[str, Any]:
        """What `save_identity` kept: ids of clusters and worker."""
        return self._identity

    def save_identity(self, identity: Mapping[str, Any]) -> None:
        """Keeps what must stay the same from run to run.

        Raises:
            StartupError: the directory cannot be written.
        """
        if identity != self._identity:
            try:
                state_file.write(self.directory / _IDENTITY, dict(identity))
            except OSError as error:
                raise self._unwritable(error) from None
            self._identity = dict(identity)

    def _unwritable(self, error: OSError) -> StartupError:
        return StartupError(
            f"store_path = {str(self.directory)!r} cannot be written ({error.strerror})",
            hint="free space there, or name a directory that this user can write",
        )

    def queue_maps(self, route: str) -> dict[str, Mapping[Queue, Queue]]:
        """The queue maps of all topics that `route` ever copied, by source topic."""
        topics = map(TaskId.parse, self.state.items(Kind.TASK))
        return {each.name: self.queue_map(route, each.name) for each in topics if each.connector == route}

    def mapped(self, route: str, topic: str) -> Mapping[str, Any] | None:
        """What is kept of a topic that has a queue map, be it an empty one."""
        kept: Mapping[str, Any] | None = self.state.get(Kind.TASK, str(TaskId(route, topic)))
        return kept

    def is_mapped(self, route: str, topic: str) -> bool:
        """Whether there is a queue map of a topic, be it an empty one."""
        return self.mapped(route, topic) is not None

    def queue_map(self, route: str, topic: str) -> Mapping[Queue, Queue]:
        """The queue map of one topic; empty while there is none. Not to be changed.

        Queues of forgotten source brokers are not in it.
        """
        whole, gone = self.whole_queue_map(route, topic), forgotten(self.state, "source")
        return {source: whole[source] for source in whole if source.broker not in gone} if gone else whole

    def whole_queue_map(self, route: str, topic: str) -> Mapping[Queue, Queue]:
        """As `queue_map`, with those of forgotten brokers: should one return, its queues go where they went."""
        record = self._topic(route, topic)
        return {} if record is None else record.queues

    def _topic(self, route: str, topic: str) -> TopicRecord | None:
        record = self.state.record(Kind.TASK, str(TaskId(route, topic)))
        if record is None or record.value is None:
            return None
        known = self._topics.get(record.key)
        if known is None or known[0] != record.version:
            known = self._topics[record.key] = (record.version, TopicRecord.of(record.value))
        return known[1]

    def target_topic(self, route: str, topic: str) -> str:
        """The name at the target of a topic that has a queue map; callers have asked whether it has."""
        return str(self.state.get(Kind.TASK, str(TaskId(route, topic)))["target_topic"])

    def begins_late(self, route: str, topic: str, queue: Queue) -> bool:
        """Whether the queue came after the route had begun."""
        record = self._topic(route, topic)
        return record is not None and queue in record.late

    def left(self, route: str, topic: str) -> frozenset[Queue]:
        """Target queues of a topic that were given up; nothing else may be copied there."""
        record = self._topic(route, topic)
        return frozenset() if record is None else record.left

    def created_at(self, route: str, topic: str) -> set[str]:
        """The target brokers at which a topic was created for the route."""
        record = self._topic(route, topic)
        fresh = frozenset() if record is None else record.fresh
        return {target.broker for source, target in self.queue_map(route, topic).items() if source in fresh}

    def save_queue_map(
        self,
        route: str,
        topic: str,
        target_topic: str,
        queue_map: QueueMap,
        *,
        late: Iterable[Queue] = (),
        fresh: Iterable[Queue] = (),
        moved: Mapping[Queue, str] | None = None,
    ) -> None:
        """Keeps a queue map before the first message flows by it, beside queues of forgotten brokers.

        Args:
            late: queues that came after the route had begun.
            fresh: queues whose target was made for them just now, so that nobody has ever sent there.
            moved: queues whose target broker was given up; `resend` or `skip` says what becomes of its copies.
        """
        key, moved = str(TaskId(route, topic)), moved or {}
        known = self.state.get(Kind.TASK, key) or {"late": [], "fresh": []}
        before = self.whole_queue_map(route, topic)
        whole = sorted({**before, **queue_map}.items())
        left = sorted({*known.get("left", ()), *(str(before[source]) for source in moved)})
        policies = known.get("moved", {}) | {str(source): policy for source, policy in moved.items()}
        value = {
            "target_topic": target_topic,
            "queues": {str(source): str(target) for source, target in whole},
            "late": sorted({*known["late"], *map(str, late)}),
            "fresh": sorted({*known["fresh"], *map(str, fresh)}),
            **({"moved": policies, "left": left} if left else {}),
        }
        self.put(Kind.TASK, key, value)

    def forget_offsets(self, route: str, topic: str) -> None:
        """The target topic has another name now: offsets in the old one mean nothing there."""
        for key in self.state.items(Kind.OFFSET):
            if TaskId.parse(key).whole == TaskId(route, topic):
                self.put(Kind.OFFSET, key, None)

    def made_of(self, connector: str) -> int:
        """What tells a connector from an earlier one of its name, which may yet be draining somewhere."""
        known = self.state.get(Kind.CONNECTOR, connector)
        return 0 if known is None else int(known.get("made", 0))

    def progress(self, connector: str, key: str) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """The position and the offset record of a queue or task; not those of an earlier connector of the name."""
        made = self.made_of(connector)
        position, offset = (self.state.get(kind, key) for kind in (Kind.POSITION, Kind.OFFSET))
        return (
            None if position is None or position.get("made", 0) != made else position,
            None if offset is None or offset.get("made", 0) != made else offset,
        )

    def restore(self, state: QueueState) -> bool:
        """Puts what is known of a queue into `state`; False when it was never seen."""
        state.made = self.made_of(state.route)
        position, offset = self.progress(state.route, state.key)
        if position is not None and isinstance(position["position"], dict):
            position = None  # a plugin's, of a task that was called so
        queue_records.restore(state, position, offset, self._topic(state.route, state.topic))
        return position is not None

    def update(self, states: Iterable[QueueState]) -> None:
        """Takes the progress of `states`, to be written with the next `snapshot`."""
        for state in states:
            if state.progress.position is None or state.made != self.made_of(state.route):
                continue
            key = state.key
            anomalies, audit = state.counters.anomalies(), state.audit.record()
            mark = (state.progress.position, state.progress.clean, state.progress.target_floor, anomalies, audit)
            kept = self.state.get(Kind.POSITION, key)  # an earlier connector's may have taken its place
            if self._marks.get(key) == mark and kept is not None and kept.get("made", 0) == state.made:
                continue
            self._marks[key] = mark
            offset, position = offset_record(state), position_record(state)
            if offset != self.state.get(Kind.OFFSET, key):
                self.put(Kind.OFFSET, key, offset)
            if position != self.state.get(Kind.POSITION, key):
                self.put(Kind.POSITION, key, position)

    def begin(self, states: Iterable[QueueState]) -> None:
        """Withdraws that these queues' last owner has ended cleanly."""
        for state in states:
            if state.progress.clean:
                self.put(Kind.OFFSET, state.key, {**offset_record(state), "clean": False})

    def snapshot(self) -> dict[str, msgspec.Raw]:
        """The files whose content has changed, as they are to be written."""
        changed = {name: self._content(name) for name in _FILES if name in self._dirty}
        self._dirty.clear()
        return changed

    def write(self, snapshot: Mapping[str, msgspec.Raw]) -> None:
        """Writes what `snapshot` gave; in a thread, while records go on changing. One call at a time.

        Raises:
            OSError: the directory cannot be written now; what is in memory stays, and is written next time.
        """
        try:
            for name, content in snapshot.items():
                state_file.write(self.directory / name, content)
        except OSError:
            self._dirty |= snapshot.keys()
            raise

    def _content(self, name: str) -> msgspec.Raw:
        """A file's content; only changed records are encoded again."""
        kinds = []
        for kind in _FILES[name]:
            members = []
            for key, (version, value) in self.state.table(kind).items():
                known = self._encoded.get((kind, key))
                if known is None or known[0] != version:
                    known = (version, encoded(Record(kind, key, version, value)))
                    self._encoded[kind, key] = known
                members.append(known[1])
            kinds.append(b'"%b":{%b}' % (kind.value.encode(), b",".join(members)))
        return msgspec.Raw(b"{%b}" % b",".join(kinds))


def _texts(content: object) -> dict[str, Any]:
    """The texts in a file's content, by name: whatever else it may be is not ours."""
    found = content.items() if isinstance(content, dict) else ()
    return {name: value for name, value in found if isinstance(value, str)}
