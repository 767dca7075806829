"""The manifest of an archive: its source, its slices, fixed when the export started, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from replicator.client.topics import TopicConfig
from replicator.errors import ConfigError, StartupError
from replicator.operate.throttled_writer import ThrottledWriter
from replicator.spark.jobs.archive import Slice
from replicator.spark.jobs.export import Exported
from replicator.state import state_file

__all__ = ["MANIFEST", "Archive", "Contents"]

#: Its name in the directory: readers of Parquet skip names that start with an underscore.
MANIFEST: Final = "_manifest.json"


class Contents(msgspec.Struct, kw_only=True):
    """The contents of an archive.

    `id` is the id that was set for the cluster, `namesrv` its first name server: an import derives from them the id
    that a route would have. `selection` are the settings that selected the slices; `topics` are by broker.
    """

    id: str | None
    cluster: str
    namesrv: str
    selection: dict[str, Any]
    topics: dict[str, dict[str, TopicConfig]]
    slices: list[Slice]
    outcomes: dict[str, Exported] = {}


class Archive:
    """An archive in `directory`; its manifest is rewritten as outcomes come in, and by `close`."""

    def __init__(self, directory: Path, contents: Contents) -> None:
        self.directory = directory
        self.contents = contents
        self._seldom = ThrottledWriter(self.write)

    @classmethod
    def read(cls, directory: Path) -> Archive | None:
        """The archive in `directory`; None if there is none.

        Raises:
            ConfigError: the manifest is not that of an archive.
        """
        content = state_file.read(directory / MANIFEST)
        if content is None:
            return None
        try:
            return cls(directory, msgspec.convert(content, Contents))
        except msgspec.ValidationError as error:
            raise ConfigError(
                f"directory = {str(directory)!r} has a {MANIFEST} that is none of an archive ({error})",
                hint="name another directory",
            ) from None

    def refuse_other(self, cluster: str, selection: Mapping[str, Any]) -> None:
        """Refuses another cluster or selection than those of the archive.

        Raises:
            ConfigError: the archive was started with others.
        """
        began = {"cluster": self.contents.cluster, **self.contents.selection}
        for name, value in {"cluster": cluster, **selection}.items():
            if began.get(name) != value:
                raise ConfigError(
                    f"directory = {str(self.directory)!r} holds an archive that was begun with"
                    f" {name} = {began.get(name)!r}",
                    hint="give what was given then, or another directory",
                )

    @property
    def open(self) -> list[Slice]:
        """The slices that are not completely written yet."""
        return [part for part in self.contents.slices if self._is_open(part.key)]

    def _is_open(self, key: str) -> bool:
        outcome = self.contents.outcomes.get(key)
        return outcome is None or bool(outcome.error)

    def add(self, outcome: Exported) -> None:
        """Adds the outcome of a slice.

        Raises:
            StartupError: its files are not in the directory, or the directory cannot be written.
        """
        if not outcome.error:
            self.refuse_missing([outcome])
        self.contents.outcomes[outcome.key] = outcome
        self._seldom.changed()

    def close(self) -> None:
        """Writes all outcomes that are not written yet.

        Raises:
            StartupError: the directory cannot be written.
        """
        self._seldom.close()

    def refuse_missing(self, outcomes: Iterable[Exported]) -> None:
        """Checks that all files exist and are complete.

        Raises:
            StartupError: names a file that is not.
        """
        for file in (file for outcome in outcomes for file in outcome.files):
            path = self.directory / file.path
            size = path.stat().st_size if path.is_file() else None
            if size != file.size:
                found = "is not there" if size is None else f"has {size} bytes instead of {file.size}"
                raise StartupError(
                    f"{path} {found}", hint="the directory must be whole, and one that all executors share"
                )

    def write(self) -> None:
        """Writes the manifest.

        Raises:
            StartupError: the directory cannot be written.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            state_file.write(self.directory / MANIFEST, msgspec.to_builtins(self.contents))
        except OSError as error:
            raise StartupError(
                f"directory = {str(self.directory)!r} cannot be written ({error.strerror})",
                hint="fix that, or name another directory",
            ) from None
