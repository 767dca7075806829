"""Forms: carried out, in the sender's name, then the browser goes on; what cannot be is a page with the reason."""

from __future__ import annotations

import pytest

from replicator.admin import changes
from replicator.errors import ConfigError
from replicator.observe.recent_events import recent_events
from replicator.page.forms import whole_number
from replicator.state.connector_configs import State
from tests.support.page import PagedWorker


@pytest.mark.parametrize(
    ("action", "state", "done"),
    [
        ("pause", "PAUSED", "paused"),
        ("stop", "STOPPED", "stopped"),
        ("restart", "RUNNING", "restarted"),
    ],
)
def test_states_are_changed_in_the_name_of_who_asked(
    paged: PagedWorker, action: str, state: str, done: str
) -> None:
    before = max((event.id for event in recent_events.after(0)), default=0)
    answered = paged.browser().post(f"/page/connectors/route/{action}")
    assert answered.status_code == 303
    assert answered.headers["location"] == f"/page/connector?connector=route&done={done}"
    assert paged.connectors.get("route").state == state
    (event,) = recent_events.after(before)
    assert event.actor == "page testclient (admin)"


def test_what_is_failed_over_is_not_resumed(paged: PagedWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "refuse_rivals", lambda *_: None)
    paged.connectors.set_state("route", State.STOPPED)
    paged.worker.switching.add("route")
    refused = paged.browser().post("/page/connectors/route/resume")
    assert (refused.status_code, "wait for its end" in refused.text) == (409, True)
    assert paged.connectors.get("route").state is State.STOPPED
    paged.worker.switching.clear()
    assert paged.browser().post("/page/connectors/route/resume").status_code == 303


def test_a_task_is_restarted_and_another_one_is_not_known(paged: PagedWorker) -> None:
    browser = paged.browser()
    assert browser.post("/page/connectors/route/restart-task", data={"task": "orders"}).status_code == 303
    assert paged.connectors.get("route").task_epochs == {"orders": 1}
    unknown = browser.post("/page/connectors/route/restart-task", data={"task": "<none>"})
    assert (unknown.status_code, "it has: orders" in unknown.text) == (404, True)
    assert browser.post("/page/connectors/none/pause").status_code == 404


def test_rates_are_whole_numbers(paged: PagedWorker) -> None:
    browser = paged.browser()
    assert browser.post("/page/connectors/route/rates", data={"rate_messages": "5,000"}).status_code == 303
    assert paged.connectors.get("route").config["rate_messages"] == 5000
    refused = browser.post("/page/connectors/route/rates", data={"rate_messages": "many"})
    assert refused.status_code == 400
    assert "rate_messages = &#39;many&#39; is not a whole number" in refused.text


@pytest.mark.parametrize("text", ["-1", "1.5", "x", "²", "9" * 30])
def test_nothing_else_is_a_whole_number(text: str) -> None:
    with pytest.raises(ConfigError, match="n = "):
        whole_number({"n": text}, "n")
    assert (whole_number({}, "n"), whole_number({"n": ""}, "n")) == (0, 0)


def test_a_body_that_is_no_form_is_refused(paged: PagedWorker) -> None:
    assert paged.browser().post("/page/connectors/route/rates", json={"rate_messages": 1}).status_code == 415
