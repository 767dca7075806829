"""The manifest of an archive: its source, its slices, fixed when the export started, and their outcomes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from replicator.client.topics import TopicConfig
from replicator.errors import ConfigError, StartupError
from replicator.observe.logging import get_logger
from replicator.operate.jobs.throttled_writer import ThrottledWriter
from replicator.spark.jobs.archive import File, Slice, is_of_attempt
from replicator.spark.jobs.export import Exported
from replicator.spark.jobs.location import Location
from replicator.state import state_file

__all__ = ["MANIFEST", "Archive", "Contents"]

#: Its name in the directory: readers of Parquet skip names that start with an underscore.
MANIFEST: Final = "_manifest.json"

log = get_logger(__name__)


class Contents(msgspec.Struct, kw_only=True):
    """The contents of an archive.

    `id` is the id that was set for the cluster, `namesrv` its first name server: an import derives from them the id
    that a route would have. `selection` are the settings that selected the slices; `topics` are by broker. `run`
    is the run of `export` that writes: another one would remove its files, and it those of the other.
    """

    id: str | None
    cluster: str
    namesrv: str
    selection: dict[str, Any]
    topics: dict[str, dict[str, TopicConfig]]
    slices: list[Slice]
    run: str = ""
    outcomes: dict[str, Exported] = {}


class Archive:
    """An archive at `location`; its manifest is rewritten as outcomes come in, and by `close`."""

    def __init__(self, location: Location, contents: Contents) -> None:
        self.location = location
        self.contents = contents
        self._claimed = False
        self._writer = ThrottledWriter(self.write)

    @classmethod
    def read(cls, location: Location) -> Archive | None:
        """The archive at `location`; None if there is none.

        Raises:
            ConfigError: the manifest is not that of an archive, or is damaged.
            StartupError: the store does not give it.
        """
        try:
            data = location.read(MANIFEST)
        except OSError as error:
            raise location.failed("read", error) from None
        if data is None:
            return None
        try:
            return cls(location, msgspec.convert(state_file.decode(data, location.at(MANIFEST)), Contents))
        except (state_file.Damaged, msgspec.ValidationError) as error:
            raise ConfigError(
                f"directory = {str(location)!r} has a {MANIFEST} that is not an archive manifest ({error})",
                hint="copy the complete archive, or name another directory",
            ) from None

    @classmethod
    def begin(cls, location: Location, contents: Contents) -> Archive:
        """Creates and writes a manifest where nothing is, but for one that a killed process has not finished.

        Raises:
            ConfigError: there is something.
            StartupError: the store cannot be read, or cannot be written.
        """
        try:
            names = set(location.names()) - {location.draft(MANIFEST)}
        except OSError as error:
            raise location.failed("read", error) from None
        if names:
            raise ConfigError(
                f"directory = {str(location)!r} is not empty, and has no {MANIFEST}", hint="name a new or empty one"
            )
        made = cls(location, contents)
        made.claim()
        return made

    def claim(self) -> None:
        """Writes the manifest as that of this run; the one that wrote it before ends when it notices that.

        Raises:
            StartupError: the store cannot be written.
        """
        if not self._claimed:
            self._claimed = True
            self.contents.run = uuid.uuid4().hex
            self._write()

    def _refuse_other_run(self) -> None:
        """Refuses to change what another run writes by now.

        Raises:
            ConfigError, StartupError: it does; or as `read`.
        """
        found = self.read(self.location)
        if found is None or found.contents.run != self.contents.run:
            raise StartupError(
                f"another export has written to the directory {str(self.location)!r} meanwhile",
                hint="let only one run at a time; once none runs, run it again to complete the archive",
            )

    def refuse_other(self, cluster: str, selection: Mapping[str, Any]) -> None:
        """Refuses another cluster or selection than those of the archive.

        Raises:
            ConfigError: the archive was started with others.
        """
        began = {"cluster": self.contents.cluster, **self.contents.selection}
        for name, value in {"cluster": cluster, **selection}.items():
            if began.get(name) != value:
                raise ConfigError(
                    f"directory = {str(self.location)!r} holds an archive that was begun with"
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
            StartupError: its files are not there, or the manifest cannot be written.
        """
        if not outcome.error:
            self.refuse_missing([outcome])
        self.contents.outcomes[outcome.key] = outcome
        self._writer.changed()

    def close(self) -> None:
        """Writes all outcomes that are not written yet.

        Raises:
            StartupError: the store cannot be written.
        """
        self._writer.close()

    def sweep(self) -> None:
        """Removes files of attempts that were killed or given up: those that the manifest does not name.

        What cannot be removed does no harm, since only what the manifest names counts: it is logged.

        Raises:
            StartupError: another run writes, whose files would be removed.
        """
        self._refuse_other_run()
        named = {file.path for outcome in self.contents.outcomes.values() for file in outcome.files}
        try:
            left = [name for name in self.location.names() if is_of_attempt(name) and name not in named]
            self.location.remove(left)
        except OSError as error:
            reason = self.location.reason(error)
            log.warning("files of earlier attempts stay", directory=str(self.location), reason=reason)
            return
        if left:
            log.info("files of earlier attempts removed", directory=str(self.location), files=len(left))

    def reopen_missing(self) -> None:
        """Opens slices again whose files are not there: another run, or somebody, may have removed them.

        Raises:
            StartupError: the store cannot be read, or cannot be written.
        """
        known = self.contents.outcomes
        missing = [
            key for key, outcome in known.items() if any(size != file.size for file, size in self._sizes([outcome]))
        ]
        for key in missing:
            del known[key]
            log.error("files of a queue are missing: it is open again", directory=str(self.location), queue=key)
        if missing:
            self.write()

    def _sizes(self, outcomes: Iterable[Exported]) -> list[tuple[File, int | None]]:
        files = [file for outcome in outcomes for file in outcome.files]
        try:
            return list(zip(files, self.location.sizes([file.path for file in files]), strict=True))
        except OSError as error:
            raise self.location.failed("read", error) from None

    def refuse_missing(self, outcomes: Iterable[Exported]) -> None:
        """Checks that all files exist and are complete.

        Raises:
            StartupError: names a file that is not.
        """
        for file, size in self._sizes(outcomes):
            if size != file.size:
                found = "is not there" if size is None else f"has {size} bytes instead of {file.size}"
                raise StartupError(
                    f"{self.location.at(file.path)} {found}",
                    hint="the directory must be whole, and one that all executors share",
                )

    def write(self) -> None:
        """Writes the manifest.

        Raises:
            StartupError: the store cannot be written, or another run has written.
        """
        self._refuse_other_run()
        self._write()

    def _write(self) -> None:
        try:
            self.location.replace(MANIFEST, state_file.encode(msgspec.to_builtins(self.contents)))
        except OSError as error:
            raise self.location.failed("written", error) from None
