"""Writes docs/COMPATIBILITY.md from the table of what was tried: `python -m tools.compatibility_page`."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from pathlib import Path

from replicator.sandbox.spec import VERSIONS
from tests.support.compatibility import FEATURES, PAIR, Feature, pairs

PAGE = Path(__file__).parent.parent / "docs" / "COMPATIBILITY.md"

_HEAD = """# Compatibility

`python -m tools.compatibility_page` writes this page from the table in `tests/support/compatibility.py`: each cell names a test that runs
on real brokers of these versions.

## Every version with every other

With each pair the same scene is played: plain, batch, delayed and transactional messages of the official client, and timer messages where
the source has a timer (5.x); the topic's queues and permission, a consumer group, its settings and its offsets; a failover; and the group goes on
at the target, with nothing redelivered and nothing missed. `make nightly` plays it.
"""

_MIDDLE = """
## What was tried with some of them

Source and target, and the test.
"""

_END = """
## What depends on a version

| what | where |
|---|---|
| timer messages, message types, attributes of topics | 5.x; a target of 4.9 gets the messages as plain ones, and topics without attributes |
| ACL 2.0 | 5.3 and later; 4.9 and 5.1 have ACL 1.0 ([accounts](ACL.md)) |
| POP, Proxies | 5.x |
| controllers that elect masters | 5.x |
| messages up to 4 MiB by default | all; a target's `maxMessageSize` decides ([`on_error`](CONFIG.md)) |

Other 4.9 and 5.x versions are expected to work as the nearest one here; none older than 4.9 was tried. `replicator doctor` reports the versions that it
finds.
"""


def _grid() -> list[str]:
    lines = ["| source \\ target | " + " | ".join(VERSIONS) + " |", "|---" * (len(VERSIONS) + 1) + "|"]
    for source, cells in groupby(pairs(), key=itemgetter(0)):
        lines.append(f"| {source} | " + " | ".join(f"`[{source}-{target}]`" for _, target in cells) + " |")
    return [*lines, "", f"The test is `{PAIR}`."]


def _row(feature: Feature) -> str:
    shown = ", ".join(f"{source} to {target}" for source, target in feature.shown)
    return f"| {feature.name} | {shown} | {feature.lacking} | `{feature.test}` |"


def page() -> str:
    """The whole page."""
    rows = ["| what | shown with | not with | test |", "|---|---|---|---|", *map(_row, FEATURES)]
    return "\n".join([_HEAD, *_grid(), _MIDDLE, *rows]) + "\n" + _END


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
