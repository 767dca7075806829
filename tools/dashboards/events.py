"""What is marked on the lines of the boards: rebalances, routes that are paused or stopped, restarts, alerts."""

from __future__ import annotations

from tools.dashboards.model import CONNECTOR, WORKER, Event, own

__all__ = ["OF_CONNECTORS", "OF_WORKERS"]


def _titled(title: str, expression: str, colour: str) -> Event:
    """An event of this name, which Grafana reads in the label `alertname`."""
    return Event(title, f'label_replace({expression}, "alertname", "{title}", "", "")', colour)


def _begins(expression: str) -> str:
    """Only while it has not been so for an interval, so that what lasts is marked where it begins."""
    return f"({expression}) > 0 unless ({expression.replace('}', '} offset $__rate_interval')}) > 0"


def _halted(state: str) -> str:
    chosen = CONNECTOR.replace("}", f',state="{state}"}}')
    return _begins(f"sum by (source, target, connector) ({own('queues', chosen)})")


_REBALANCED = f"sum by (source, target) (increase({own('rebalances_total', WORKER)}[$__rate_interval])) > 0"
_RESTARTED = (
    f"changes(process_start_time_seconds[$__rate_interval]) > 0 and on (job, instance) {own('tasks', WORKER)}"
)
_FIRING = (
    'ALERTS{alertname=~"Replicator.*",alertstate="firing",severity="critical"} unless '
    'ALERTS{alertname=~"Replicator.*",alertstate="firing",severity="critical"} offset $__rate_interval'
)

OF_WORKERS = (
    _titled("rebalance", _REBALANCED, "blue"),
    _titled("worker restarted", _RESTARTED, "purple"),
    Event("critical alert", _FIRING, "red"),
)
#: A failover ends with its route stopped.
OF_CONNECTORS = (
    *OF_WORKERS,
    _titled("paused", _halted("paused"), "orange"),
    _titled("stopped, or failed over", _halted("stopped"), "red"),
)
