"""Files as source and sink: each line is a message, each message a line. The worked sample of a plugin.

All workers must see the same file, since any of them may run the task. They are off at a worker without
`file_connector_dir`, and never touch a file outside of it.
"""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
)

from replicator.plugins.interface import (
    Polled,
    Position,
    Record,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    TaskFailed,
)
from replicator.plugins.limits import ConnectorLimits, OutOfBounds, open_inside, refuse_outside
from replicator.settings import topic_name

__all__ = ["FileSink", "FileSource"]

#: Bytes that a line may have, and that are read at once.
_LINE: Final = 1024 * 1024
#: Bytes in front of the position by which a file is known again.
_LOOK_BACK: Final = 1024

Topic = Annotated[str, AfterValidator(topic_name)]


def _absolute(value: Path) -> Path:
    if not value.is_absolute():
        raise ValueError("give an absolute path: workers have different working directories")
    return value


def _split(value: object) -> object:
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    filename: Annotated[Path, AfterValidator(_absolute)] = Field(
        description="path of the file, the same on all workers; inside of their file_connector_dir"
    )
    _directory: Path = PrivateAttr()

    @field_validator("filename")
    @classmethod
    def _inside(cls, value: Path, info: ValidationInfo) -> Path:
        limits = info.context if isinstance(info.context, ConnectorLimits) else ConnectorLimits()
        if limits.file_dir is None:
            raise ValueError(
                "file connectors are off at this worker: set file_connector_dir in the settings of all workers"
            )
        try:
            refuse_outside(limits.file_dir, value)
        except OutOfBounds as error:
            raise ValueError(str(error)) from None
        return value

    def model_post_init(self, context: ConnectorLimits) -> None:
        """Keeps the directory that the file must stay in."""
        assert context.file_dir is not None  # noqa: S101 - _inside has seen to it
        self._directory = context.file_dir

    @property
    def directory(self) -> Path:
        """The directory that the file must stay in."""
        return self._directory


class FileSourceConfig(_File):
    """Where lines come from, and the topic that they go to."""

    topic: Topic = Field(alias="connect.topicname", description="topic of the target that lines are sent to")


class FileSinkConfig(_File):
    """The topics that lines are made of, and where they go to."""

    topics: Annotated[list[Topic], BeforeValidator(_split), Field(min_length=1)] = Field(
        alias="connect.topicnames", description="topics of the source whose messages become lines"
    )


class FileSource(SourceConnector[FileSourceConfig]):
    """Each line of a file becomes a message of one topic."""

    config = FileSourceConfig

    def tasks(self, config: FileSourceConfig) -> Mapping[str, Sequence[str]]:
        return {"0": [config.topic]}

    def task(self, config: FileSourceConfig, name: str) -> SourceTask:
        return FileSourceTask(config.filename, config.topic, config.directory)


class FileSink(SinkConnector[FileSinkConfig]):
    """Each message becomes a line of one file; a body that has line ends in it becomes several."""

    config = FileSinkConfig

    def tasks(self, config: FileSinkConfig) -> Mapping[str, Sequence[str]]:
        return {"0": config.topics}

    def task(self, config: FileSinkConfig, name: str) -> SinkTask:
        return FileSinkTask(config.filename, config.directory)


def _opened(directory: Path, path: Path, flags: int) -> int:
    try:
        return open_inside(directory, path, flags)
    except OutOfBounds as error:
        raise TaskFailed(error.message, hint=error.hint) from None


class FileSourceTask(SourceTask):
    """Reads lines that are complete.

    Its position is the offset of the next line in bytes, and the CRC of up to 1,024 bytes in front of it: by
    that a truncated or replaced file is distinguished from one that has grown, on any machine.
    """

    def __init__(self, path: Path, topic: str, directory: Path) -> None:
        self._path = path
        self._directory = directory
        self._topic = topic
        self._offset = 0
        self._crc = 0

    async def start(self, position: Position | None) -> None:
        if position is not None:
            self._offset, self._crc = position["offset"], position["crc"]

    async def poll(self) -> Sequence[Polled]:
        before, read = await asyncio.to_thread(self._read)
        end = read.rfind(b"\n") + 1  # what follows waits for its own end
        if not end and len(read) >= _LINE:
            raise TaskFailed(
                f"the line at byte {self._offset} of {self._path} is longer than {_LINE} bytes", hint="split it"
            )
        polled, at = [], 0
        window = before + read[:end]
        while at < end:
            stop = read.index(b"\n", at) + 1
            known = len(before) + stop
            crc = zlib.crc32(window[max(0, known - _LOOK_BACK) : known])
            position = {"offset": self._offset + stop, "crc": crc}
            polled.append(Polled(Record(self._topic, read[at : stop - 1]), position))
            at = stop
        if polled:
            await self.start(polled[-1].position)
        return polled

    def _read(self) -> tuple[bytes, bytes]:
        """Up to 1,024 bytes in front of the offset, and what is behind it.

        Raises:
            TaskFailed: the file is not the one that was read before.
        """
        back = min(_LOOK_BACK, self._offset)
        with os.fdopen(_opened(self._directory, self._path, os.O_RDONLY), "rb") as file:
            file.seek(self._offset - back)
            before = file.read(back)
            if len(before) < back or zlib.crc32(before) != self._crc:
                size = os.fstat(file.fileno()).st_size
                what = f"ends at byte {size}" if size < self._offset else "has other content before that"
                raise TaskFailed(
                    f"{self._path} was truncated or replaced: it was read up to byte {self._offset}, and {what}",
                    hint="put the file back, or read the new one with a connector of another name",
                )
            return before, file.read(_LINE)

    async def stop(self) -> None:
        """Nothing is held between two polls."""


class FileSinkTask(SinkTask):
    """Appends lines. A line that a crash has cut off is ended, and comes again whole."""

    def __init__(self, path: Path, directory: Path) -> None:
        self._path = path
        self._directory = directory
        self._file: int | None = None

    async def start(self) -> None:
        self._file = await asyncio.to_thread(self._open)

    def _open(self) -> int:
        file = _opened(self._directory, self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            os.write(file, b"\n")
        return file

    async def put(self, records: Sequence[Record]) -> None:
        await asyncio.to_thread(self._append, b"".join(record.body + b"\n" for record in records))

    def _append(self, lines: bytes) -> None:
        assert self._file is not None  # noqa: S101 - after start
        rest = memoryview(lines)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)

    async def stop(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
