"""The verdict of `verify`, and its report in Markdown: a plot of the queues, a table, and the first findings."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from replicator.errors import StartupError
from replicator.observe.moment import moment
from replicator.ranges.comparer import Caveat, Compared
from replicator.ranges.findings import KINDS, Finding
from replicator.ranges.pairing import RUN

__all__ = ["ReportFile", "Verdict", "conclusion", "counts_of", "findings", "noted", "render", "told"]

#: Why there may be something behind where a worker says that the lag is 0.
_BEHIND_WORDS: Final = (
    "behind: offsets of the source after a queue's last copy, which were not compared: not copied yet, or nothing"
    " that the route copies, as what came here from the target before (--complete looks at them, too)"
)
_EXTRA_WORDS: Final = (
    "all that differs is extra: sent to the target itself, or copied there from another cluster. Where that is as"
    " it should be, as after a way back or with two routes into one topic, give --ignore-extra"
)
_COLUMNS: Final = ("queue", "target", "start", "end", "behind", "selected", "copies", "digests", "found")
#: Characters of a queue's bar.
_WIDTH: Final = 60
_EQUAL, _DIFFERS, _BEHIND, _LEFT_OUT = "█", "!", "░", "·"


class Verdict(StrEnum):
    """What all queues together come to."""

    AGREE = "source and target agree"
    DIFFER = "source and target differ"
    #: As far as they were compared they agree.
    INCOMPLETE = "nothing differs, but not all could be compared"
    #: Nothing can be missing, and nothing is there that should not be.
    EMPTY = "the source has had no messages yet, so there was nothing to compare"
    NO_COPIES = (
        "nothing was compared, because the target has no copies of what was to be compared: check --target and"
        " --rename, or count it as missing with --complete"
    )
    NO_MESSAGES = (
        "nothing was compared, because the source has no messages to compare there, or has them no longer: check"
        " --source, --topics, filters, --from and --to"
    )

    @classmethod
    def of(cls, found: Sequence[Compared], *, window: bool) -> Verdict:
        """That of `found`; with `window`, of a part of what the source has."""
        if any(each.counts for each in found):
            return cls.DIFFER
        if any(each.error for each in found):
            return cls.INCOMPLETE
        if any(each.selected or each.copies for each in found):
            return cls.INCOMPLETE if any(each.caveat is Caveat.NO_COPIES for each in found) else cls.AGREE
        if any(each.behind for each in found):
            return cls.NO_COPIES
        whole = bool(found) and not window
        return cls.EMPTY if whole and not any(each.end for each in found) else cls.NO_MESSAGES

    @property
    def clean(self) -> bool:
        """Whether the target has what it should have, as far as that was asked for."""
        return self in {Verdict.AGREE, Verdict.EMPTY}


_SENTENCES: Final = {Verdict.AGREE: "They agree.", Verdict.DIFFER: "They differ."}


class ReportFile:
    """The file `path` for a report, which is tried before there is one.

    Raises:
        StartupError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            if path.is_dir():
                raise IsADirectoryError(0, "it is a directory")
            # A reader has the old report or the new one. Only a plain file can be replaced, unlike /dev/stdout.
            self._beside = path.with_name(f".{path.name}.{os.getpid()}") if _is_plain(path) else None
            if self._beside is not None:
                self._beside.touch()
                self._beside.unlink()
            elif path.exists() and not os.access(path, os.W_OK):
                raise PermissionError(0, os.strerror(errno.EACCES))
        except OSError as error:
            raise self._refused(error) from None

    def write(self, report: str) -> None:
        """Writes `report` in place of what was there.

        Raises:
            StartupError: it can no longer be written; what was there stays.
        """
        try:
            if self._beside is None:
                self._path.write_text(report, encoding="utf-8")
                return
            try:
                self._beside.write_text(report, encoding="utf-8")
                self._beside.replace(self._path)
            finally:
                self._beside.unlink(missing_ok=True)
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> StartupError:
        return StartupError(
            f"report = {str(self._path)!r} cannot be written ({error.strerror})", hint="name a file that can"
        )


def _is_plain(path: Path) -> bool:
    """Whether another file may take its place: a link would be lost, and the directory may be somebody else's."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return False
    return not path.exists() or os.access(path.parent, os.W_OK | os.X_OK)


def conclusion(found: Sequence[Compared], verdict: Verdict) -> str:
    """The verdict, with what could not be compared."""
    if verdict is not Verdict.INCOMPLETE:
        return verdict
    failed = sum(bool(each.error) for each in found)
    uncopied = sum(each.caveat is Caveat.NO_COPIES for each in found)
    reasons = (
        f"{failed} queues could not be read: run it again" * bool(failed),
        f"{uncopied} queues have no copies at all: check that all brokers of the target run" * bool(uncopied),
    )
    return f"{verdict}: {'; '.join(filter(None, reasons))}"


def render(found: Sequence[Compared], verdict: Verdict) -> str:
    """The whole report."""
    said = conclusion(found, verdict)
    lines = ["# Source against target", "", _SENTENCES.get(verdict, f"{said[:1].upper()}{said[1:]}."), ""]
    lines += [*_plot(found), ""]
    lines += [_line(_COLUMNS), _line(["---"] * len(_COLUMNS)), *(_line(row) for row in map(_row, found)), ""]
    if counts := counts_of(found):
        lines += ["## Counts", "", *(f"- {kind}: {count}" for kind, count in counts.items()), ""]
        lines += ["## First findings", "", *(f"- {text}" for text in findings(found)), ""]
    return "\n".join(lines)


def counts_of(found: Sequence[Compared]) -> Mapping[str, int]:
    """The number of findings of each kind."""
    counts = {kind: sum(each.counts.get(kind, 0) for each in found) for kind in KINDS}
    return {kind: count for kind, count in counts.items() if count}


def noted(each: Compared) -> str:
    """A summary of what was found in a queue, or why it was not compared."""
    counts = ", ".join(f"{kind} {each.counts[kind]}" for kind in KINDS if kind in each.counts)
    return "; ".join(filter(None, (each.error or counts, each.caveat)))


def told(found: Sequence[Compared], verdict: Verdict, *, most: int) -> Iterator[str]:
    """What stands below the table for people: `most` findings of each kind, how many there are, and the verdict."""
    counts, listed = counts_of(found), dict.fromkeys(KINDS, 0)
    for kind, line in _findings(found):
        listed[kind] += 1
        if listed[kind] <= most:
            yield line
    if sum(counts.values()) > sum(min(count, most) for count in listed.values()):
        yield "… and others: -o json and --report have more of them"
    if counts:
        yield f"in all: {', '.join(f'{kind} {count:,}' for kind, count in counts.items())}"
    if any(each.behind for each in found):
        yield _BEHIND_WORDS
    if [*counts] == ["extra"]:
        yield _EXTRA_WORDS
    yield conclusion(found, verdict)


def findings(found: Sequence[Compared]) -> Iterator[str]:
    """The first findings of each queue."""
    return (line for _, line in _findings(found))


def _findings(found: Sequence[Compared]) -> Iterator[tuple[str, str]]:
    """With the kind of each."""
    for each in found:
        for one in each.findings:
            source = "" if one.source is None else f" source {each.key}/{one.source}"
            target = "" if one.target is None else f" target {each.target}/{one.target}"
            detail = f" ({one.detail})" if one.detail else ""
            yield one.kind, f"{one.kind}:{source}{target}{detail}{_keys(one)}"


def _keys(one: Finding) -> str:
    """By what the message of a finding can be looked up."""
    named = {"UNIQ_KEY": one.uniq_key, "KEYS": one.keys}
    if one.stored is not None:
        named["stored"] = moment(one.stored / 1000, f"%Y-%m-%dT%H:%M:%S.{one.stored % 1000:03}+00:00")
    shown = {name: value if value.isprintable() else repr(value) for name, value in named.items() if value}
    return "".join(f" {name}={value}" for name, value in shown.items())


def _plot(found: Sequence[Compared]) -> Iterator[str]:
    """A bar for each queue, all on one scale: from the lowest source offset to the highest."""
    low = min((each.start for each in found), default=0)
    high = max((each.end + each.behind for each in found), default=0)
    name = max((len(each.key) for each in found), default=0)
    yield "```"
    for each in found:
        yield f"{each.key:<{name}} {_bar(each, low, high)} {each.start}-{each.end}"
    yield f"{_EQUAL} equal  {_DIFFERS} differs  {_BEHIND} behind  {_LEFT_OUT} not compared; offsets {low} to {high}"
    yield "```"


def _bar(each: Compared, low: int, high: int) -> str:
    bar = [_LEFT_OUT] * _WIDTH
    reach = high - low

    def draw(mark: str, start: int, end: int) -> None:
        """Marks all characters that stand for a part of [start, end)."""
        if start < end:
            for at in range((start - low) * _WIDTH // reach, -(-(end - low) * _WIDTH // reach)):
                bar[at] = mark

    draw(_BEHIND, each.end, each.end + each.behind)
    draw(_EQUAL, each.start, each.end)
    for run in each.differing:
        draw(_DIFFERS, max(each.start, run * RUN), min(each.end, (run + 1) * RUN))
    if each.counts and _DIFFERS not in bar:  # beside or after all that was compared
        bar[min((each.end - low) * _WIDTH // max(reach, 1), _WIDTH - 1)] = _DIFFERS
    return "".join(bar) if not each.error else _DIFFERS * _WIDTH


def _row(each: Compared) -> list[Any]:
    return [
        each.key,
        each.target,
        each.start,
        each.end,
        each.behind,
        each.selected,
        each.copies,
        "equal" if each.source_digest == each.target_digest else "differ",
        noted(each),
    ]


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
