"""The dashboard of copied messages, by connector and topic."""

from __future__ import annotations

from tools.dashboards.events import OF_CONNECTORS
from tools.dashboards.model import BY_CONNECTOR, BY_TOPIC, CONNECTOR, TOPIC, WORKER, Board, Panel, Row, own, rate

__all__ = ["ROUTE"]

_BY = "{{connector}} {{topic}}"
_QUEUE = "{{topic}} {{broker}}/{{queue}}"
_BUCKETS = f"rate({own('replication_latency_seconds_bucket', CONNECTOR)}[$__rate_interval])"


#: How many messages were copied, of which each has a latency.
_COPIED = rate("messages_replicated", TOPIC)


def _sum(expression: str, *more: str) -> str:
    return f"sum by ({', '.join((BY_TOPIC, *more))}) ({expression})"


def _grown(title: str, name: str, text: str, *alerts: str) -> Panel:
    """A panel for a counter that should not increase."""
    grown = _sum(f"increase({own(name + '_total', TOPIC)}[$__rate_interval])")
    return Panel(title, text, {_BY: grown}, width=6, bad=1, alerts=alerts)


def _quantile(q: float) -> str:
    return f"histogram_quantile({q}, sum by ({BY_CONNECTOR}, le) ({_BUCKETS}))"


ROUTE = Board(
    "route",
    "Replicator / Route",
    "What is copied, by connector and topic.",
    ("source", "target", "connector", "topic"),
    (
        Row(
            "Health",
            (
                Panel(
                    "Queues by state",
                    "All should run. Why one waits or failed: `/status/queues` of its worker; what to do: docs/RUNBOOK.md, *By symptom*.",
                    {"{{state}}": f"sum by (state) ({own('queues', TOPIC)})"},
                    kind="stack",
                    alerts=("QueuesWaiting", "QueuesFailed", "RouteHalted"),
                    board="group",
                ),
                Panel(
                    "Queues that stand still",
                    "They lag and a restart did not help: read their reason and the target broker's log.",
                    {_BY: _sum(own("queues_stalled", TOPIC))},
                    kind="stat",
                    width=6,
                    bad=1,
                    alerts=("QueuesStalled",),
                ),
                Panel(
                    "Queues that failed",
                    "They are retried automatically; fix the cause that `/status/queues` names.",
                    {_BY: _sum(own("queues", TOPIC.replace("}", ',state="failed"}')))},
                    kind="stat",
                    width=6,
                    bad=1,
                    alerts=("QueuesFailed",),
                ),
            ),
        ),
        Row(
            "Traffic",
            (
                Panel(
                    "Messages copied",
                    "0 while there is a lag: look at the states above, then at the target.",
                    {_BY: _sum(rate("messages_replicated", TOPIC))},
                    unit="mps",
                    alerts=("NothingCopied",),
                ),
                Panel(
                    "Bytes copied",
                    "Compare with the network between the clusters; `replicator connectors update NAME rate_bytes=…` limits them.",
                    {_BY: _sum(rate("bytes_replicated", TOPIC))},
                    unit="Bps",
                ),
                Panel(
                    "Messages left out, by reason",
                    "`filter`, `loop` and `transform` are as configured. `error` and `dead-letter` were refused: find out why.",
                    {"{{topic}} {{reason}}": _sum(rate("messages_skipped", TOPIC), "reason")},
                    unit="mps",
                    empty="nothing was left out",
                    alerts=("MessagesRefused",),
                ),
                Panel(
                    "Messages in a batch",
                    "Near `batch_messages` while catching up, small when idle; small with a lag means small pulls from the source.",
                    {
                        _BY: f"{_sum(rate('messages_replicated', TOPIC))} / ({_sum(rate('batches_sent', TOPIC))} > 0)"
                    },
                    empty="nothing was sent in this time",
                ),
            ),
        ),
        Row(
            "Lag and latency",
            (
                Panel(
                    "Messages not copied",
                    "Grows: the source is faster than the copy. Look for limits (time waited below), then for a busy target.",
                    {_BY: _sum(own("lag_messages", TOPIC))},
                ),
                Panel(
                    "Age of the copy",
                    "What would be lost with the source. Rises by one second per second: this topic stands still.",
                    {_BY: f"max by ({BY_TOPIC}) ({own('lag_seconds', TOPIC)})"},
                    unit="s",
                    warn=300,
                    bad=1800,
                    alerts=("LagHigh", "LagCritical"),
                ),
                Panel(
                    "Share of time that queues wait, by side",
                    "With a lag: `source` high means a slow source or network, `target` high a slow target. Without one all wait for the source.",
                    {
                        f"{{{{connector}}}} {{{{topic}}}} {side}": f"{_sum(rate(f'{side}_wait_seconds', TOPIC))} / {_sum(own('queues', TOPIC))}"
                        for side in ("source", "target")
                    },
                    unit="percentunit",
                ),
                Panel(
                    "Messages in flight",
                    "Pulled and not acknowledged. High and level with a lag: the target is the slower one.",
                    {_BY: _sum(own("in_flight_messages", TOPIC))},
                ),
                Panel(
                    "Replication latency (store to ack)",
                    "High without a lag: the target's disk or the network. Clocks of source and workers need not agree.",
                    {
                        f"p{int(q * 100)} {{{{source}}}} → {{{{target}}}} {{{{connector}}}}": _quantile(q)
                        for q in (0.5, 0.99)
                    },
                    unit="s",
                    empty="nothing was copied in this time",
                ),
                Panel(
                    "Average replication latency by topic",
                    "One topic above the others: its target broker, or messages that come in bursts.",
                    {_BY: f"{_sum(rate('message_latency_seconds', TOPIC))} / ({_sum(_COPIED)} > 0)"},
                    unit="s",
                    empty="nothing was copied in this time",
                ),
                Panel(
                    "Replication latency",
                    "Two bands: two kinds of queues, or a target that pauses.",
                    {"{{le}}": f"sum by (le) ({_BUCKETS})"},
                    kind="heat",
                    unit="s",
                    empty="nothing was copied in this time",
                ),
            ),
        ),
        Row(
            "Queues, with metrics_per_queue",
            (
                Panel(
                    "Messages not copied, of queues",
                    "One above the others: its broker, or keys that all go to one queue.",
                    {_QUEUE: own("queue_lag_messages", TOPIC)},
                    empty="workers run without metrics_per_queue",
                ),
                Panel(
                    "Age of the copy, of queues",
                    "One that rises alone stands still: `/status/queues` of its worker says why.",
                    {_QUEUE: own("queue_lag_seconds", TOPIC)},
                    unit="s",
                    empty="workers run without metrics_per_queue",
                ),
                Panel(
                    "Messages copied, of queues",
                    "Share of the traffic of each queue.",
                    {_QUEUE: rate("queue_messages_replicated", TOPIC)},
                    unit="mps",
                    empty="workers run without metrics_per_queue",
                ),
                Panel(
                    "Position, of queues",
                    "Level with a lag: it stands still. A step back: the source was truncated or recreated.",
                    {_QUEUE: own("queue_position", TOPIC)},
                    empty="workers run without metrics_per_queue",
                ),
                Panel(
                    "Verified, of queues",
                    "Source offset before which all copies were read back, or count as not read back. It follows the position by seconds.",
                    {_QUEUE: own("queue_verified_offset", TOPIC)},
                    empty="workers run without metrics_per_queue",
                ),
            ),
        ),
        Row(
            "Problems",
            (
                Panel(
                    "Errors",
                    "By outcome for the queue and by the broker's answer; single ones are retried. Lasting ones are in the worker's log.",
                    {"{{outcome}} {{code}}": f"sum by (outcome, code) ({rate('errors', TOPIC)})"},
                    unit="ops",
                    empty="no request failed",
                ),
                Panel(
                    "Sends deferred by the target",
                    "It is busy, or refuses temporarily; they are retried in order. If it lasts: the target broker's load and disk.",
                    {_BY: _sum(rate("send_retries", TOPIC))},
                    unit="ops",
                ),
                Panel(
                    "Throttled time",
                    "More than 0 with a growing lag: raise `rate_messages` or `rate_bytes` (`PUT /connectors/NAME/rates`).",
                    {"{{source}} → {{target}}": f"sum by (source, target) ({rate('throttled_seconds', WORKER)})"},
                    unit="s",
                ),
                _grown(
                    "Messages lost at the source",
                    "source_gap_messages",
                    "Its retention deleted them before they were copied. Raise `fileReservedTime` there, or the limits here.",
                    "SourceGap",
                ),
                _grown(
                    "Source queues truncated or recreated",
                    "source_resets",
                    "A topic was deleted, or a broker lost its tail: compare with what was done there.",
                    "SourceReset",
                ),
                _grown(
                    "Messages lost at the target",
                    "target_lost_messages",
                    "It came back with an older store, or a lagging replica was promoted; they are copied again. See its disks.",
                    "TargetLost",
                ),
                _grown(
                    "Messages that came late",
                    "late_messages",
                    "The source had them when its death was declared; they stand behind what was written at the target since.",
                ),
                _grown(
                    "Duplicates at the target",
                    "duplicate_messages",
                    "Should not happen: `replicator where` finds them; please report it. Two groups with one route cause it, too.",
                    "DuplicateMessages",
                ),
                Panel(
                    "Copies not read back",
                    "`sampling` is normal at full load. Else the target's retention, a backfill by Spark, or another worker or other settings in between.",
                    {
                        "{{connector}} {{topic}} {{reason}}": f"sum by (source, target, connector, topic, reason) ({rate('unverified_messages', TOPIC)})"
                    },
                    unit="mps",
                    width=6,
                ),
                _grown(
                    "Foreign messages at the target",
                    "foreign_messages",
                    "Normal on two-way routes. Else find the producer; `--protect-target` prevents further ones.",
                    "ForeignMessages",
                ),
            ),
        ),
    ),
    events=OF_CONNECTORS,
)
