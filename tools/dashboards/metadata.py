"""The dashboard of topics, groups, offsets and accounts: age of the last sync, and differences."""

from __future__ import annotations

from tools.dashboards.events import OF_CONNECTORS
from tools.dashboards.model import CONNECTOR, RESOURCE, Board, Panel, Row, own

__all__ = ["METADATA"]

_BY = "source, target, connector, resource"
_ROUTE = "{{source}} → {{target}} {{connector}}"


def _sum(name: str) -> str:
    return f"sum by ({_BY}) ({own(name, CONNECTOR)})"


METADATA = Board(
    "metadata",
    "Replicator / Metadata",
    "Topics, groups, offsets, accounts: age of the last sync, and differences.",
    ("source", "target", "connector"),
    (
        Row(
            "Health",
            (
                Panel(
                    "Last sync",
                    "Seconds since everything of a resource was read and applied; one day if that has never happened. Grows: "
                    "`GET /connectors/NAME/sync` names the broker and the reason.",
                    {
                        RESOURCE: f"clamp_max(time() - max by ({_BY}) ({own('sync_last_success_timestamp_seconds', CONNECTOR)}), 86400)"
                    },
                    kind="stat",
                    unit="s",
                    bad=300,
                    empty="nothing is synced (--sync none)",
                    alerts=("SyncOld",),
                ),
                Panel(
                    "Changes that the target refused",
                    "The reasons are under `GET /connectors/NAME/sync`; often a right that the replicator's account lacks there.",
                    {RESOURCE: _sum("sync_failed_actions")},
                    kind="stat",
                    bad=1,
                    empty="nothing is synced (--sync none)",
                    alerts=("SyncFailed",),
                ),
                Panel(
                    "Manual changes at the target",
                    "`replicator plan` names them. Undo them there, or let `--on-drift repair` do it.",
                    {RESOURCE: _sum("sync_drifted_items")},
                    kind="stat",
                    bad=1,
                    empty="nothing is synced (--sync none)",
                    alerts=("Drift",),
                ),
                Panel(
                    "Remaining differences",
                    "`replicator plan` says why each is not corrected automatically; offsets wait while the group has consumers at the target.",
                    {RESOURCE: _sum("sync_blocked_actions")},
                    empty="nothing is synced (--sync none)",
                ),
            ),
        ),
        Row(
            "Consumer groups, if they switched now",
            (
                Panel(
                    "Messages they would miss",
                    "Not 0: do not switch. `replicator readiness` names the group and the queue.",
                    {_ROUTE: own("consumer_group_missed_messages", CONNECTOR)},
                    width=8,
                    empty="offsets are not synced (--sync), or not yet",
                    bad=1,
                    alerts=("GroupsWouldMiss",),
                    board="overview",
                ),
                Panel(
                    "Messages redelivered at a switch",
                    "Falls to 0 when consumers have stopped and the next sync is complete: wait for that, or accept it.",
                    {_ROUTE: own("consumer_group_redelivery_messages", CONNECTOR)},
                    width=8,
                    empty="offsets are not synced (--sync), or not yet",
                ),
                Panel(
                    "Queues without an offset at the target",
                    "There the group would start where its own settings say. Falls with the first sync after a group's first commit.",
                    {_ROUTE: own("consumer_group_queues_without_offset", CONNECTOR)},
                    width=8,
                    empty="offsets are not synced (--sync), or not yet",
                ),
            ),
        ),
        Row(
            "Work",
            (
                Panel(
                    "Changes made at the target",
                    "Offsets change all the time. Topics or groups that change all the time: two syncs that disagree; see `audit.jsonl`.",
                    {
                        RESOURCE: f"sum by ({_BY}) (rate({own('sync_actions_applied_total', CONNECTOR)}[$__rate_interval]))",
                    },
                    unit="ops",
                    width=24,
                    empty="nothing is synced (--sync none)",
                ),
            ),
        ),
    ),
    events=OF_CONNECTORS,
)
