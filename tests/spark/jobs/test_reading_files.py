"""Files of an archive as they are read: a part at a time, and only if they are what the manifest says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from replicator.errors import ReplicatorError
from replicator.protocol.message import StoredMessage, checksum
from replicator.routing.queue_map import Queue
from replicator.spark.jobs import archive_rows, export
from replicator.spark.jobs.archive import File, Slice, read
from replicator.spark.jobs.export import _Writing
from replicator.spark.jobs.location import Location

HERE, BESIDE, ELSEWHERE = (
    Slice(*place, 0, 50) for place in (("t", Queue("a", 0)), ("t", Queue("a", 1)), ("u", Queue("a", 0)))
)


def message(offset: int, body: bytes = b"b", properties: bytes = b"") -> StoredMessage:
    return StoredMessage(offset, 0, 0, 1, 1000, 0, checksum(body), len(body).to_bytes(4) + body, properties)


def written(location: Location, part: Slice, messages: Iterable[StoredMessage]) -> File:
    """The file with `messages`."""
    writing = _Writing(location, part)
    for each in messages:
        if writing.add([each]):
            writing.flush()
    (file,) = writing.finish()
    return file


def offsets(location: Location, part: Slice, file: File) -> list[int]:
    return [each.queue_offset for some in read(location, part.message_queue, [file], start=0) for each in some]


@pytest.mark.parametrize("where", ["body", "properties"])
def test_so_much_is_in_memory_as_a_row_group_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """However little its messages take in a file, and however few there are in each row group."""
    monkeypatch.setattr(export, "_GROUP", 100_000)
    location = Location(str(tmp_path))
    file = written(location, HERE, (message(i, **{where: b"K\x01" + bytes(20_000)}) for i in range(40)))
    assert file.size < 100_000
    chunks = [len(messages) for messages in read(location, HERE.message_queue, [file], start=0)]
    assert chunks == [5] * 8


@pytest.mark.parametrize("other", [BESIDE, ELSEWHERE])
def test_files_that_have_changed_places_are_refused(tmp_path: Path, other: Slice) -> None:
    """Their sizes, and what the manifest says of their messages, may be the same; none of those is given out."""
    location = Location(str(tmp_path))
    ours, theirs = (written(location, part, map(message, range(50))) for part in (HERE, other))
    (tmp_path / theirs.path).rename(tmp_path / ours.path)
    with pytest.raises(ReplicatorError, match="does not have the messages of t/a/0 at offsets 0 to 49"):
        next(read(location, HERE.message_queue, [ours], start=0))


@pytest.mark.parametrize(
    "wrong", [[0, 0, *range(2, 50)], [0, 2, 1, *range(3, 50)], [*range(1, 50)], [*range(49), 50]]
)
def test_files_with_other_offsets_are_refused(tmp_path: Path, wrong: list[int]) -> None:
    """Each message has to be in its place, once; nothing is given out."""
    location = Location(str(tmp_path))
    made = written(location, HERE, map(message, wrong))
    file = File(made.path, 50, 0, 49, made.size)
    with pytest.raises(ReplicatorError, match="does not have the messages of t/a/0"):
        next(read(location, HERE.message_queue, [file], start=0))


def test_files_of_earlier_versions_do_not_say_their_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read as before."""
    monkeypatch.setattr(export, "schema_of", lambda _: archive_rows.SCHEMA)
    location = Location(str(tmp_path))
    assert offsets(location, HERE, written(location, HERE, map(message, range(50)))) == [*range(50)]
