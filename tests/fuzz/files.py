"""What is fuzzed of files and options: configurations, accounts, name servers' addresses, manifests, streams."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from acl_sync import files as acl_files
from acl_sync.model import AclState
from acl_sync.ownership import Ownership
from replicator.client.address import split_address
from replicator.client.address_server import AddressServer
from replicator.client.security import Security
from replicator.client.topics import TopicConfig
from replicator.connector.identity import refuse_other_ids
from replicator.errors import ConfigError, StartupError, Unreachable
from replicator.metadata.groups import GroupSelector
from replicator.operate.acl import kept_by_last_run
from replicator.operate.jobs.archive import MANIFEST, Archive, Contents
from replicator.operate.jobs.manifest import Manifest
from replicator.operate.options import SELECTION
from replicator.ranges.copy_job import CopyOutcome, Range
from replicator.routing.message_queue import MessageQueue
from replicator.routing.options import Identity
from replicator.routing.queue_map import Queue
from replicator.routing.selector import TopicSelector
from replicator.settings import Settings, load
from replicator.spark.jobs.archive import File, Slice
from replicator.spark.jobs.export import Exported
from replicator.spark.jobs.location import Location
from replicator.spark.source import stream_offsets
from replicator.spark.source.given_options import EARLIEST, LATEST, GivenOptions
from replicator.state import state_file

__all__ = ["FILES"]


@contextmanager
def _file(name: str, data: bytes) -> Iterator[Path]:
    """A file of this content, that nobody has written to for a while."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        path = Path(directory) / name
        path.write_bytes(data)
        os.utime(path, (0, 0))
        yield path


def configuration(data: bytes) -> None:
    """A configuration file is understood, or refused by an error that names what is wrong.

    Its patterns are compiled, and match names or not, in time.
    """
    with _file("worker.toml", data) as file, contextlib.suppress(ConfigError):
        settings = load({}, file=file)
        route = settings.route
        selector = TopicSelector.of(route.topics, route.exclude_topics)
        groups = GroupSelector.of(route.sync_groups, route.exclude_groups)
        for name in ("orders", "pay_2026", "a" * 200, "%RETRY%app"):
            selector.selects(name)
            groups.selects(name)


def accounts(data: bytes) -> None:
    """A broker's file of accounts is read, or refused without its content."""
    with _file("plain_acl.yml", data) as file:
        shown = ""
        try:
            assert isinstance(acl_files.read(file.parent), AclState)
        except StartupError as error:
            shown = str(error)
    lines = (line.strip().decode(errors="replace") for line in data.splitlines())
    assert not any(len(line) > 40 and line in shown for line in lines)


def addresses(data: bytes) -> None:
    """The answer of an address server: addresses that can be connected to, or none."""
    with contextlib.suppress(Unreachable):
        found = AddressServer("http://h/rocketmq/nsaddr", Security())._parse(data)
        assert found
        for address in found:
            host, port = split_address(address)
            assert host
            assert 0 < port < 65536


_SETTINGS: Final = Settings.model_validate({"source": {"namesrv": ["e:1"]}, "target": {"namesrv": ["w:1"]}})
_IDENTITY: Final = Identity("east", "west")


@contextmanager
def _state_file(name: str, data: bytes) -> Iterator[Path]:
    """One with this content, or an empty one where it is none, and the right checksum. It may be refused."""
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        content = None
    whole = state_file.encode({} if content is None else content)
    with _file(name, whole) as file, contextlib.suppress(ConfigError, StartupError):
        yield file


def owned(data: bytes) -> None:
    """What `acl apply` keeps: our accounts at the brokers of two clusters, or refused."""
    with _state_file("acl.json", data) as file:
        kept = kept_by_last_run(file)
        refuse_other_ids(_IDENTITY, kept)
        held = Ownership(kept.get("brokers"))
        assert Ownership(held.as_json()).as_json() == held.as_json()


def archive(data: bytes) -> None:
    """The manifest of an archive: it says what is left to write, and which files must be there; or is refused."""
    with _state_file(MANIFEST, data) as file:
        found = Archive.read(Location(str(file.parent)))
        assert found is not None
        assert len(found.open) <= len(found.contents.slices)
        found.refuse_other("east", _SELECTED)
        found.reopen_missing()
        found.refuse_missing(found.contents.outcomes.values())
        found.sweep()


def manifest(data: bytes) -> None:
    """The manifest of a backfill: it says what is left to copy, or is refused."""
    with _state_file("manifest.json", data) as file:
        found = Manifest.read(file, _SETTINGS, _IDENTITY)
        assert found is not None
        assert len(found.open) <= len(found.ranges)
        found.close()


def streams(data: bytes) -> None:
    """Offsets of queues, as a checkpoint and as options have them: read, or refused as what they are."""
    text = data.decode(errors="replace")
    for name in ("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "maxOffsetsPerTrigger"):
        with contextlib.suppress(ConfigError):
            given = GivenOptions({name: text}, (name,))
            given.bound("starting", EARLIEST)
            given.bound("ending", LATEST)
            given.whole(name, 1)
            given.seconds(name)
            given.queues(name)
    try:
        begin = stream_offsets.of_json(msgspec.json.decode(data, type=_CHECKPOINT))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return
    assert stream_offsets.of_json(stream_offsets.to_json(begin)) == begin
    ends = {queue: offset + len(queue.topic) for queue, offset in begin.items()}
    for most in (None, 1, 7):
        reached = stream_offsets.advance(begin, ends, most)
        assert all(begin[queue] <= reached[queue] <= ends[queue] for queue in begin)
        taken = stream_offsets.waiting(begin, reached)
        assert taken == min(stream_offsets.waiting(begin, ends), taken if most is None else most)
    assert {MessageQueue(part.topic, *part.queue) for part in stream_offsets.parts(begin, ends)} <= ends.keys()


_CHECKPOINT: Final = dict[str, dict[str, dict[str, int]]]
_CONFIG: Final = b"""
topics = ["orders", "pay.*"]
exclude_topics = ["pay_[0-9]+"]
sync_groups = ["(a|b)+c"]
rate_messages = 500
batch_bytes = "1 MiB"
[source]
namesrv = "east:9876"
[target]
namesrv = ["west:9876", "west2:9876"]
[acl]
accounts = ["app-.*"]
"""
_ACCOUNTS: Final = b"""
globalWhiteRemoteAddresses: [10.10.*.*]
accounts:
- accessKey: app
  secretKey: twelve-characters-and-more
  admin: false
  defaultTopicPerm: DENY
  topicPerms: [orders=PUB|SUB]
  groupPerms: [readers=SUB]
"""
_MANIFEST: Final = {
    "source": "east",
    "target": "west",
    "route": {name: getattr(_SETTINGS, name) for name in SELECTION},
    "ranges": [Range("orders", Queue("a", 0), "orders", Queue("b", 1), 5, 900)],
    "outcomes": [CopyOutcome("orders/a/0", 5, 900, copied=890, gaps=5)],
}
_OWNED: Final = {
    "source_id": "east",
    "target_id": "west",
    "brokers": {"west-a": {"accounts": {"app": "created"}, "white": ["10.0.0.1"], "deleted": {"old": "x"}}},
}
_SELECTED: Final = {"topics": ["orders"]}
_ARCHIVE: Final = Contents(
    id=None,
    cluster="east",
    namesrv="east:9876",
    selection=_SELECTED,
    topics={"orders": {"a": TopicConfig(name="orders", read_queues=2, write_queues=2)}},
    slices=[Slice("orders", Queue("a", i), 0, 9, (1, 2)) for i in range(2)],
    run="1f",
    outcomes={"orders/a/0": Exported("orders/a/0", 0, 9, messages=9)},
)
_ARCHIVE_OF_FILES: Final = msgspec.structs.replace(
    _ARCHIVE, outcomes={"orders/a/0": Exported("orders/a/0", 0, 9, files=[File("a-0.parquet", 9, 0, 8, 5)])}
)

#: Targets as in `TARGETS`: what takes the bytes, and seeds.
FILES: Final[Mapping[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]]] = {
    "configuration": (configuration, (_CONFIG,)),
    "acl-files": (accounts, (_ACCOUNTS, b"accounts: []\n")),
    "addresses": (addresses, (b"east-ns:9876;10.0.0.1:9876\n", b"[::1]:9876")),
    "manifest": (manifest, (msgspec.json.encode(_MANIFEST),)),
    "owned": (owned, (msgspec.json.encode(_OWNED),)),
    "archive": (archive, (msgspec.json.encode(_ARCHIVE), msgspec.json.encode(_ARCHIVE_OF_FILES))),
    "streams": (streams, (b'{"orders":{"broker-a":{"0":17,"1":0}}}', b"earliest", b"15m", b"100")),
}
