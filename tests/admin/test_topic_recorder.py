"""The history of topics grows whether somebody looks at it or not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from replicator.admin.topic_recorder import TopicRecorder
from replicator.observe.topic_history import TopicHistory
from replicator.state.connector_configs import State
from replicator.state.record import Kind


def test_what_all_workers_published_is_added_up() -> None:
    orders = {"connector": "route", "topic": "orders", "state": "RUNNING"}
    published = {
        "w1": {"topics": [{**orders, "lag_messages": 3, "copied": 10}]},
        "w2": {
            "topics": [
                {**orders, "lag_messages": 4, "copied": 1, "copied_in_all": 90},
                {**orders, "topic": "bills", "lag_messages": 0, "copied": 5},
            ]
        },
        "gone": {"topics": [{**orders, "lag_messages": 1000, "copied": 1000}]},
    }
    state = SimpleNamespace(items=lambda kind: published if kind is Kind.STATUS else {})
    worker = SimpleNamespace(
        id="w1",
        others={"w2": None},
        standby=None,
        store=SimpleNamespace(state=state),
        connectors=SimpleNamespace(all=lambda: {"route": SimpleNamespace(state=State.RUNNING)}),
    )
    history = TopicHistory()
    recorder = TopicRecorder(cast("Any", worker), history)
    recorder.record()
    recorder.record()
    (point,) = history.line(("route", "orders"))
    assert point.lag == 7
    assert len(history.line(("route", "bills"))) == 1
    assert recorder._view.progress()["route", "orders"] == (7, 100)
