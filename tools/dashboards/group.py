"""The dashboard of workers, leases, assignments and processes."""

from __future__ import annotations

from tools.dashboards.events import OF_WORKERS
from tools.dashboards.model import WORKER, Board, Panel, Row, own, rate

__all__ = ["GROUP"]

_BY = "{{instance}}"
_ROUTE = "{{source}} → {{target}}"


def _own(name: str) -> str:
    return own(name, WORKER)


def _process(expression: str) -> str:
    """A process metric, which has no labels of a route, for the selected workers."""
    return f"{expression} and on (job, instance) {_own('tasks')}"


def _age(name: str) -> str:
    """Seconds since then; a day if it has not happened yet."""
    return f"clamp_max(time() - {_own(name)}, 86400)"


#: Workers by version; the version's own metric has no labels of a route.
_VERSIONS = (
    "count by (source, target, version) "
    f"({own('tasks', WORKER)} * 0 + on (job, instance) group_left (version) {own('build_info', '')})"
)

GROUP = Board(
    "group",
    "Replicator / Group",
    "Workers, leases, assignments, and how the processes are.",
    ("source", "target"),
    (
        Row(
            "Health",
            (
                Panel(
                    "Members that each worker sees",
                    "All lines should be one. A worker that sees fewer than the others cannot reach the source's system topics.",
                    {_BY: _own("worker_group_members")},
                    alerts=("FewerMembers", "WorkerDown"),
                ),
                Panel(
                    "Lease held",
                    "`no` for long: that worker does not reach the system topics of the source, both ways. Its tasks run elsewhere by now.",
                    {_BY: _own("lease_held")},
                    kind="stat",
                    bad=1,
                    low=True,
                    words={"0": "no", "1": "yes"},
                    alerts=("NoLease", "NoActiveLease"),
                ),
                Panel(
                    "Leases lost",
                    "Once: the machine paused or the network failed. Repeatedly: an overloaded machine, or clock steps of a virtual machine.",
                    {_BY: f"increase({own('fencings_total', WORKER)}[$__rate_interval])"},
                    bad=1,
                    alerts=("LeasesLost",),
                ),
                Panel(
                    "Age of own heartbeats",
                    "Age of the newest own heartbeat read back: more than `session_timeout` on `source` ends all tasks; on `sink` alone: the target cannot be reached.",
                    {"{{instance}} {{side}}": _age("heartbeat_last_echo_timestamp_seconds")},
                    unit="s",
                    bad=5,
                ),
                Panel(
                    "Others' heartbeats",
                    "Age of the last heartbeat of each other worker: one column of high lines is a worker that is down.",
                    {"{{worker}} at {{instance}}": _age("member_last_heartbeat_timestamp_seconds")},
                    unit="s",
                    bad=5,
                    empty="there is one worker",
                ),
                Panel(
                    "Age of cluster metadata",
                    "Grows: the name servers cannot be reached; the worker's log says `refresh failed`. Copying continues with the known metadata.",
                    {_BY: _age("metadata_refresh_last_success_timestamp_seconds")},
                    unit="s",
                    width=6,
                    bad=300,
                    alerts=("RefreshOld",),
                ),
                Panel(
                    "Age of the state on disk",
                    "Grows: the disk of `store_path` is full or read-only. Copying continues; a restart reads more from the target.",
                    {_BY: _age("state_save_last_success_timestamp_seconds")},
                    unit="s",
                    width=6,
                    bad=300,
                    alerts=("StateNotSaved",),
                ),
                Panel(
                    "Age of the state at the target",
                    "Grows: the target cannot be written. If the source died now, a new worker would know the group as it was then.",
                    {_BY: _age("state_mirror_last_success_timestamp_seconds")},
                    unit="s",
                    width=6,
                    bad=120,
                    empty="standalone, or coordination=target: there is no mirror",
                    alerts=("StateNotMirrored",),
                ),
            ),
        ),
        Row(
            "Assignment",
            (
                Panel(
                    "Tasks",
                    "Even among the workers. `replicator allocated` says which runs where; topics with much traffic can be shared with "
                    "`task_granularity=queue`.",
                    {_BY: _own("tasks")},
                    kind="stack",
                ),
                Panel(
                    "Generation of the assignment",
                    "One step for each worker or topic that comes or goes. Other steps: an unstable worker.",
                    {_BY: _own("assignment_generation")},
                ),
                Panel(
                    "Rebalances",
                    "Rebalances. Repeatedly: an unstable worker, or topics that come and go.",
                    {_BY: f"increase({own('rebalances_total', WORKER)}[$__rate_interval])"},
                ),
                Panel(
                    "Time spent in rebalances",
                    "Share of the time; a task that must stop first sends what it has pulled. At 1 for long: a worker does not release its tasks.",
                    {_BY: rate("rebalance_duration_seconds", WORKER), "now {{instance}}": _own("rebalancing")},
                    unit="percentunit",
                ),
                Panel(
                    "Ignored control messages",
                    "Workers of a newer version, with another secret or with none, or a foreign producer writes to `replicator_sys_…`: find it (SECURITY.md).",
                    {
                        "{{instance}} {{reason}}": rate("control_messages_ignored", WORKER),
                        "{{instance}} records from {{origin}}": rate("shared_state_records_skipped", WORKER),
                    },
                    unit="mps",
                    empty="none since the workers started",
                    alerts=("OtherSecret",),
                ),
                Panel(
                    "Messages copied by each worker",
                    "One far above the others: see `Tasks`.",
                    {_BY: f"sum by (source, target, instance) ({rate('messages_replicated', WORKER)})"},
                    unit="mps",
                ),
            ),
        ),
        Row(
            "Processes",
            (
                Panel(
                    "CPU",
                    "A worker uses one core at most: near 1 with a growing lag, start another one.",
                    {_BY: _process("rate(process_cpu_seconds_total[$__rate_interval])")},
                    unit="percentunit",
                ),
                Panel(
                    "Memory",
                    "Should stay level. The part that messages in flight use is below.",
                    {_BY: _process("process_resident_memory_bytes")},
                    unit="bytes",
                ),
                Panel(
                    "Memory of messages in flight",
                    "At `memory_bytes` all the time: the target is slower than the source; more memory does not help.",
                    {_BY: _own("buffer_used_bytes"), "limit {{instance}}": _own("buffer_limit_bytes")},
                    unit="bytes",
                ),
                Panel(
                    "Event-loop lag",
                    "The longest time within a minute. Near the lease (0.7 of `session_timeout`): the machine is overloaded, or too small.",
                    {_BY: _own("event_loop_delay_seconds")},
                    unit="s",
                    bad=3.5,
                ),
                Panel(
                    "Open files",
                    "Grows without end: a bug, please report it. The limit is the process's `LimitNOFILE`.",
                    {_BY: _process("process_open_fds"), "limit {{instance}}": _process("process_max_fds")},
                ),
                Panel(
                    "Running for",
                    "Short: it was restarted. The service manager's log says why.",
                    {_BY: _process("time() - process_start_time_seconds")},
                    kind="stat",
                    unit="s",
                ),
                Panel(
                    "Versions",
                    "More than one for a route: an upgrade is under way, or was forgotten.",
                    {"{{source}} → {{target}} {{version}}": _VERSIONS},
                    kind="stat",
                ),
            ),
        ),
    ),
    events=OF_WORKERS,
)
