"""Writes docs/COMPATIBILITY.md from the features and the record of their tests: `python -m tools.compatibility_page`."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from pathlib import Path

from replicator.sandbox.spec import VERSIONS
from tests.support.compatibility import FEATURES, PAIR, Feature, Pair, pairs
from tests.support.compatibility_record import Result, read

PAGE = Path(__file__).parent.parent / "docs" / "COMPATIBILITY.md"

_HEAD = """# Compatibility

What was tried on real brokers of these versions, and passed. `make compatibility` runs the tests, records in
[compatibility.json](compatibility.json) how each ended, and makes this page of it: a pair of versions stands here if every case that was run with
it passed when it was last run, and no longer once one fails. {record}

## Every version with every other

With each pair the same scene is played: plain, batch, delayed and transactional messages of the official client, and timer messages where
the source has a timer (5.x); the topic's queues and permission, a consumer group, its settings and its offsets; a failover; and the group goes on
at the target, with nothing redelivered and nothing missed. Each cell has the day of its last pass.
"""

_MIDDLE = """
## What was tried with some of them

Source and target, the day of the oldest of these results, and the test.
"""

_END = """
## What depends on a version

| what | where |
|---|---|
| timer messages, message types, attributes of topics | 5.x; a target of 4.9 gets the messages as plain ones, and topics without attributes |
| ACL 2.0 | 5.3 and later; 4.9 and 5.1 have ACL 1.0 ([accounts](ACL.md)) |
| POP, Proxies | 5.x; of a source of 5.1.4 it is not known [what POP consumers hold](GUARANTEES.md#what-is-not-promised) |
| controllers that elect masters | 5.x |
| messages up to 4 MiB by default | all; a target's `maxMessageSize` decides ([`on_error`](CONFIG.md)) |

Other 4.9 and 5.x versions are expected to work as the nearest one here; none older than 4.9 was tried. `replicator doctor` reports the versions that it
finds.
"""


def _record(results: dict[str, Result]) -> str:
    """Of which replicator the record is, and of what days."""
    days = sorted({each.day for each in results.values()})
    versions = ", ".join(sorted({each.replicator for each in results.values()}))
    return f"This record is of replicator {versions}, {days[0] if len(days) == 1 else f'{days[0]} to {days[-1]}'}."


def tries(results: dict[str, Result], test: str) -> dict[Pair, list[Result]]:
    """The results of a test's cases by the pairs of versions that they had."""
    found: dict[Pair, list[Result]] = {}
    for name, result in results.items():
        if name.partition("[")[0] == test:
            for pair in result.versions:
                found.setdefault(pair, []).append(result)
    return dict(sorted(found.items()))


def passes(results: dict[str, Result], test: str) -> dict[Pair, str]:
    """The pairs with which each of a test's cases has passed, and the day of the oldest of these results."""
    found = tries(results, test).items()
    return {pair: min(each.day for each in cases) for pair, cases in found if all(each.passed for each in cases)}


def failures(results: dict[str, Result], test: str) -> list[str]:
    """The pairs with which a case has failed when it was last run, with the day."""
    return [
        f"{source} to {target} failed on {max(each.day for each in cases if not each.passed)}"
        for (source, target), cases in tries(results, test).items()
        if not all(each.passed for each in cases)
    ]


def _grid(results: dict[str, Result]) -> list[str]:
    passed = passes(results, PAIR)
    lines = ["| source \\ target | " + " | ".join(VERSIONS) + " |", "|---" * (len(VERSIONS) + 1) + "|"]
    for source, cells in groupby(pairs(), key=itemgetter(0)):
        lines.append(f"| {source} | " + " | ".join(f"✓ {passed[c]}" if c in passed else "no" for c in cells) + " |")
    return [*lines, "", f"The test is `{PAIR}`."]


def _row(results: dict[str, Result], feature: Feature) -> str:
    passed = passes(results, feature.test)
    shown = ", ".join(f"{source} to {target}" for source, target in passed)
    lacking = "; ".join([*filter(None, [feature.lacking]), *failures(results, feature.test)])
    return f"| {feature.name} | {shown} | {lacking} | {min(passed.values(), default='')} | `{feature.test}` |"


def page(results: dict[str, Result]) -> str:
    """The whole page."""
    rows = [
        *("| what | passed with | not with | on | test |", "|---|---|---|---|---|"),
        *(_row(results, feature) for feature in FEATURES),
    ]
    return "\n".join([_HEAD.format(record=_record(results)), *_grid(results), _MIDDLE, *rows]) + "\n" + _END


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
