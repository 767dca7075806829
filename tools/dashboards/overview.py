"""The overview dashboard: are we safe to fail over?"""

from __future__ import annotations

from tools.dashboards.events import OF_CONNECTORS
from tools.dashboards.model import BY_CONNECTOR, CONNECTOR, WORKER, Board, Panel, Row, own, rate

__all__ = ["OVERVIEW"]

_BY = "{{source}} → {{target}} {{connector}}"
_ROUTE = "{{source}} → {{target}}"

OVERVIEW = Board(
    "overview",
    "Replicator / Overview",
    "Are we safe to fail over?",
    ("source", "target", "connector"),
    (
        Row(
            "If the source were lost now",
            (
                Panel(
                    "Safe to fail over",
                    "`yes` if there are no blockers. Else see the panel beside, and run "
                    "`replicator readiness`, which lists each. What is not synced (`--sync`) is not checked.",
                    {_BY: f"sum by ({BY_CONNECTOR}) (replicator:failover_blockers{CONNECTOR}) == bool 0"},
                    kind="stat",
                    width=8,
                    bad=1,
                    low=True,
                    words={"0": "no", "1": "yes"},
                    empty="load dashboards/rules.yml, or no worker answers",
                    board="metadata",
                ),
                Panel(
                    "Failover blockers",
                    "`lag`: the route dashboard. `queues`: `/status/queues` of the worker has the reason. `groups`, `sync`: the "
                    "metadata dashboard, `replicator plan`. `lease`: the group dashboard.",
                    {
                        "{{connector}} {{reason}}": f"sum by ({BY_CONNECTOR}, reason) (replicator:failover_blockers{CONNECTOR})"
                    },
                    kind="stat",
                    width=16,
                    bad=1,
                    words={"0": "fine", "1": "blockers"},
                    empty="load dashboards/rules.yml, or no worker answers",
                    board="route",
                ),
                Panel(
                    "Age of the copy",
                    "How old the newest copied message of the topic furthest behind is: what would be lost. 0 where all is copied. "
                    "If it grows: the route dashboard.",
                    {_BY: f"max by ({BY_CONNECTOR}) ({own('lag_seconds', CONNECTOR)})"},
                    kind="stat",
                    unit="s",
                    width=6,
                    warn=300,
                    bad=1800,
                    alerts=("LagHigh", "LagCritical"),
                    board="route",
                ),
                Panel(
                    "Messages not copied",
                    "`replicator lag` shows them by topic. A few are normal under load.",
                    {_BY: f"sum by ({BY_CONNECTOR}) ({own('lag_messages', CONNECTOR)})"},
                    kind="stat",
                    width=6,
                    board="route",
                ),
                Panel(
                    "Messages groups would miss",
                    "Not 0: do not switch before `replicator readiness` has said which group and why.",
                    {_BY: f"sum by ({BY_CONNECTOR}) ({own('consumer_group_missed_messages', CONNECTOR)})"},
                    kind="stat",
                    width=6,
                    bad=1,
                    empty="offsets are not synced (--sync), or not yet",
                    alerts=("GroupsWouldMiss",),
                    board="metadata",
                ),
                Panel(
                    "Messages redelivered at a switch",
                    "Grows while consumers are faster than the sync of offsets; nothing is lost.",
                    {_BY: f"sum by ({BY_CONNECTOR}) ({own('consumer_group_redelivery_messages', CONNECTOR)})"},
                    kind="stat",
                    width=6,
                    empty="offsets are not synced (--sync), or not yet",
                    board="metadata",
                ),
            ),
        ),
        Row(
            "Proof at the target",
            (
                Panel(
                    "Messages that differ",
                    "Copies that are not at the target as they were sent, since the workers started. Not 0: "
                    "`replicator readiness` names the topics, the worker's log each message.",
                    {
                        _BY: f"sum by ({BY_CONNECTOR}) ({own('audit_differences_total', CONNECTOR)}) or sum by ({BY_CONNECTOR}) ({own('verified_messages_total', CONNECTOR)}) * 0"
                    },
                    kind="stat",
                    width=6,
                    bad=1,
                    alerts=("AuditDifferences",),
                    board="route",
                ),
                Panel(
                    "Age of what is not verified",
                    "How long the oldest copy waits to be read back; some seconds are normal. If it grows: the target cannot be read.",
                    {_BY: f"max by ({BY_CONNECTOR}) ({own('verified_age_seconds', CONNECTOR)})"},
                    kind="stat",
                    unit="s",
                    width=6,
                    bad=300,
                    alerts=("AuditBehind",),
                ),
                Panel(
                    "Copies read back",
                    "Of all copies, how many were read back and compared. Less than all of them where that would take more than about "
                    "a fifth of the copy's CPU, or by `audit_share`.",
                    {
                        "verified {{connector}}": f"sum by ({BY_CONNECTOR}) ({rate('verified_messages', CONNECTOR)})",
                        "copied {{connector}}": f"sum by ({BY_CONNECTOR}) ({rate('messages_replicated', CONNECTOR)})",
                    },
                    unit="mps",
                ),
            ),
        ),
        Row(
            "Alerts and workers",
            (
                Panel(
                    "Alerts that fire",
                    "What each means and what to type is in docs/RUNBOOK.md under its name.",
                    {"": 'ALERTS{alertname=~"Replicator.*",alertstate="firing"}'},
                    kind="table",
                    width=16,
                    empty="none",
                ),
                Panel(
                    "Workers that answer",
                    "Fewer than you have started: look at the machine of the one that is missing.",
                    {_ROUTE: f"count by (source, target) ({own('tasks', WORKER)})"},
                    kind="stat",
                    width=4,
                    bad=1,
                    low=True,
                    alerts=("Absent", "WorkerDown"),
                    board="group",
                ),
                Panel(
                    "Workers with a lease",
                    "0: nothing is copied. The workers cannot reach the source's system topics: the group dashboard.",
                    {_ROUTE: f"sum by (source, target) ({own('lease_held', WORKER)})"},
                    kind="stat",
                    width=4,
                    bad=1,
                    low=True,
                    alerts=("NoActiveLease",),
                    board="group",
                ),
            ),
        ),
        Row(
            "Traffic",
            (
                Panel(
                    "Messages copied",
                    "0 while there is a lag: the route dashboard.",
                    {_BY: f"sum by ({BY_CONNECTOR}) ({rate('messages_replicated', CONNECTOR)})"},
                    unit="mps",
                ),
                Panel(
                    "Age of the copy over time",
                    "A line that rises by one second per second stands still; one that falls is catching up.",
                    {_BY: f"max by ({BY_CONNECTOR}) ({own('lag_seconds', CONNECTOR)})"},
                    unit="s",
                    warn=300,
                    bad=1800,
                    alerts=("LagHigh", "LagCritical"),
                    board="route",
                ),
            ),
        ),
    ),
    events=OF_CONNECTORS,
)
