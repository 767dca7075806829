"""The file plugins by themselves: lines, positions, and files that are not what they were."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from replicator.plugins import Position, Record, TaskFailed
from replicator.plugins.file import FileSinkTask, FileSourceTask


async def _read(path: Path, position: Position | None = None) -> tuple[list[bytes], list[Position]]:
    """What a task that begins at `position` gives in one poll: bodies, and the positions behind them."""
    task = FileSourceTask(path, "t", path.parent)
    await task.start(position)
    polled = await task.poll()
    return [each.record.body for each in polled], [each.position for each in polled]


async def test_a_line_that_is_not_complete_waits(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"a\n\n\xff\r\nrest")
    task = FileSourceTask(path, "t", path.parent)
    await task.start(None)
    assert [each.record for each in await task.poll()] == [Record("t", body) for body in (b"a", b"", b"\xff\r")]
    assert not await task.poll()
    path.write_bytes(path.read_bytes() + b" of it\n")
    assert [each.record.body for each in await task.poll()] == [b"rest of it"]


@pytest.mark.parametrize("length", [1, 100, 2000])
async def test_every_position_is_one_to_go_on_at(tmp_path: Path, length: int) -> None:
    path = tmp_path / "in"
    lines = [b"%d" % i * length for i in range(9)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    _, positions = await _read(path)
    for done, position in enumerate(positions, 1):
        assert (await _read(path, position))[0] == lines[done:]


async def test_more_than_is_read_at_once_comes_in_order(tmp_path: Path) -> None:
    path = tmp_path / "in"
    lines = [b"%07d" % i * 20 for i in range(20_000)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    task, found = FileSourceTask(path, "t", path.parent), list[bytes]()
    await task.start(None)
    while polled := await task.poll():
        found += [each.record.body for each in polled]
    assert found == lines


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"first\n", "ends at byte 6"),
        (b"", "ends at byte 0"),
        (b"other\nsecond\nthird\n", "has other content"),
        (b"first\nSecond\n", "has other content"),
    ],
)
async def test_another_file_is_not_read_on(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"first\nsecond\n")
    position = (await _read(path))[1][-1]
    path.write_bytes(content)
    with pytest.raises(TaskFailed, match=rf"{path} was truncated or replaced.* byte 13, and {reason}"):
        await _read(path, position)


async def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"x" * 2**20)
    with pytest.raises(TaskFailed, match="the line at byte 0"):
        await _read(path)
    path.write_bytes(b"x" * (2**20 - 1) + b"\n")
    assert [len(body) for body in (await _read(path))[0]] == [2**20 - 1]


async def _write(path: Path, bodies: Sequence[bytes]) -> None:
    task = FileSinkTask(path, path.parent)
    try:
        await task.start()
        await task.put([Record("t", body) for body in bodies])
    finally:
        await task.stop()


async def test_lines_are_appended_and_a_torn_one_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "out"
    await _write(path, [b"a", b""])
    assert path.read_bytes() == b"a\n\n"
    path.write_bytes(b"a\n\ntor")
    await _write(path, [b"torn"])
    assert path.read_bytes() == b"a\n\ntor\ntorn\n"


async def test_a_file_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await _write(tmp_path / "none" / "out", [b"a"])
