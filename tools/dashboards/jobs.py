"""The dashboard of running Spark jobs."""

from __future__ import annotations

from tools.dashboards.model import Board, Panel, Row, own

__all__ = ["JOBS"]

_OF = '{command=~"$command"}'
_BY = "{{command}} at {{instance}}"


def _own(name: str) -> str:
    return own(name, _OF)


_RATE = f"rate({_own('job_messages_total')}[$__rate_interval])"

JOBS = Board(
    "jobs",
    "Replicator / Spark jobs",
    "Backfills, comparisons, archives and routes by Spark that were given a --metrics-port.",
    ("command",),
    (
        Row(
            "Progress",
            (
                Panel(
                    "Progress",
                    "Stands still: see `Since the last progress`. The command reports at its end what is left.",
                    {_BY: f"{_own('job_messages_total')} / {_own('job_messages_expected')}"},
                    unit="percentunit",
                    empty="no job with --metrics-port runs",
                ),
                Panel(
                    "Messages per second",
                    "Falls towards the end, when fewer queues are left than tasks could run. `--rate-messages` limits the whole job.",
                    {_BY: _RATE},
                    unit="mps",
                    empty="no job with --metrics-port runs",
                ),
                Panel(
                    "Time left",
                    "At the current rate.",
                    {_BY: f"({_own('job_messages_expected')} - {_own('job_messages_total')}) / ({_RATE} > 0)"},
                    kind="stat",
                    unit="s",
                    width=6,
                    empty="no job with --metrics-port runs",
                ),
                Panel(
                    "Since the last progress",
                    "More than `stall_timeout`: tasks wait for a broker, or Spark for executors. Look at Spark's own page, then at the brokers.",
                    {_BY: f"time() - {_own('job_last_progress_timestamp_seconds')}"},
                    kind="stat",
                    unit="s",
                    width=6,
                    bad=120,
                    empty="no job with --metrics-port runs",
                ),
                Panel(
                    "Queues by state",
                    "`failed` queues are reported with their reasons at the end; run the command again to continue with them.",
                    {"{{command}} {{state}}": f"sum by (command, state) ({_own('job_queues')})"},
                    kind="stack",
                    empty="no job with --metrics-port runs",
                ),
                Panel(
                    "Findings",
                    "Of a copy: gaps at the source, duplicates at the target. Of verify: differences from the source; its report names the messages.",
                    {"{{command}} {{finding}}": f"sum by (command, finding) ({_own('job_findings')})"},
                    empty="no job with --metrics-port runs",
                ),
            ),
        ),
    ),
)
