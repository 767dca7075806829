"""Writes docs/METRICS.md from the catalogue of metrics; a test holds the two together."""

from __future__ import annotations

from pathlib import Path

from replicator.observe.catalogue import ALWAYS, JOBS, METRICS, PREFIX, Spec

PAGE = Path(__file__).parent.parent / "docs" / "METRICS.md"

_HEAD = f"""# Metrics

Made by `python -m tools.metrics_page` from the program's own catalogue.

`/metrics` of each worker tells of what runs there, so sums over workers are sums over the group; a topic's series end when its task
moves. All but `{PREFIX}build_info` have the labels `{"`, `".join(ALWAYS)}`, the ids of the two clusters. Beside these there are the
process's own: `process_…`, `python_…`.

| metric | kind | labels | what it says |
|---|---|---|---|
"""

_JOBS = """
## Jobs of Spark's

`replicator backfill`, `verify`, `export`, `import` and `run --engine spark` serve these on the port of `--metrics-port`, at 127.0.0.1 where
the driver runs, while they run.

| metric | kind | labels | what it says |
|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(map(_row, METRICS.values())) + _JOBS + "".join(map(_row, JOBS.values()))


def _row(spec: Spec) -> str:
    end = {"counter": "_total", "histogram": "_bucket, _sum, _count"}.get(spec.kind, "")
    labels = ", ".join(f"`{label}`" for label in spec.labels)
    return f"| `{PREFIX}{spec.name}{end}` | {spec.kind} | {labels} | {spec.text} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
