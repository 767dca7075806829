"""The manifest of a backfill: the ranges that it copies, fixed when it started, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from replicator.errors import ConfigError, StartupError
from replicator.operate.jobs.throttled_writer import ThrottledWriter
from replicator.operate.options import SELECTION
from replicator.ranges.copy_job import CopyOutcome, Range
from replicator.routing.options import Identity
from replicator.settings import Settings
from replicator.state import state_file

__all__ = ["Manifest"]


class Manifest:
    """A manifest in `file`, rewritten as outcomes come in, and by `close`.

    Raises:
        StartupError: the file cannot be written.
    """

    def __init__(
        self,
        file: Path,
        identity: Identity,
        route: Mapping[str, Any],
        ranges: Sequence[Range],
        outcomes: Sequence[CopyOutcome],
    ) -> None:
        self.ranges = list(ranges)
        self.outcomes = {outcome.key: outcome for outcome in outcomes}
        self._file = file
        self._identity = identity
        self._route = dict(route)
        self._writer = ThrottledWriter(self.write)

    @classmethod
    def begin(cls, file: Path, settings: Settings, identity: Identity, ranges: Sequence[Range]) -> Manifest:
        """Creates and writes a manifest."""
        made = cls(file, identity, _deciding(settings), ranges, ())
        made.write()
        return made

    @classmethod
    def read(cls, file: Path, settings: Settings, identity: Identity) -> Manifest | None:
        """The manifest of an earlier run; None if there is none.

        Raises:
            ConfigError: the earlier run had other clusters, or other settings.
        """
        content = state_file.read(file)
        if content is None:
            return None
        way_out = "give what was given then, or another --manifest"
        try:
            ours = Identity(content["source"], content["target"])
            route = msgspec.convert(content["route"], dict[str, Any])
            ranges = msgspec.convert(content["ranges"], list[Range])
            outcomes = msgspec.convert(content["outcomes"], list[CopyOutcome])
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise ConfigError(
                f"manifest = {str(file)!r} is not a backfill manifest ({error})", hint=way_out
            ) from None
        if ours != identity:
            raise ConfigError(
                f"manifest = {str(file)!r} is of {ours.source} to {ours.target}, not {identity.source} to"
                f" {identity.target}",
                hint=way_out,
            )
        for name, value in _deciding(settings).items():
            if route.get(name) != value:
                raise ConfigError(
                    f"manifest = {str(file)!r} was begun with {name} = {route.get(name)!r}", hint=way_out
                )
        return cls(file, identity, route, ranges, outcomes)

    @property
    def open(self) -> list[Range]:
        """The ranges that are not completely copied yet."""
        return [part for part in self.ranges if not self.is_done(part)]

    def is_done(self, part: Range) -> bool:
        outcome = self.outcomes.get(part.key)
        return outcome is not None and not outcome.error

    def add(self, outcome: CopyOutcome) -> None:
        """Adds the outcome of a range."""
        self.outcomes[outcome.key] = outcome
        self._writer.changed()

    def close(self) -> None:
        """Writes all outcomes that are not written yet."""
        self._writer.close()

    def write(self) -> None:
        content = {
            "source": self._identity.source,
            "target": self._identity.target,
            "route": self._route,
            "ranges": msgspec.to_builtins(self.ranges),
            "outcomes": msgspec.to_builtins(list(self.outcomes.values())),
        }
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            state_file.write(self._file, content)
        except OSError as error:
            raise StartupError(
                f"manifest = {str(self._file)!r} cannot be written ({error.strerror})",
                hint="name a writable file with --manifest",
            ) from None


def _deciding(settings: Settings) -> dict[str, Any]:
    """The settings that determine the ranges."""
    return {name: getattr(settings, name) for name in SELECTION}
