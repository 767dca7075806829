"""A configuration is checked and compared before it is changed, and only if nobody was faster."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.page import configuration
from replicator.page.configuration import differing_lines, parsed
from tests.support.page import PagedWorker

PATH = "/page/connectors/route/config"


@pytest.fixture(autouse=True)
def _no_clusters(paged: PagedWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose answers decide about filters and rivals."""

    async def refuse_wrong(worker: Any, name: str, config: Any) -> Any:
        return worker.connectors.parse(name, config)

    monkeypatch.setattr(configuration, "refuse_wrong", refuse_wrong)
    monkeypatch.setattr(configuration, "refuse_rivals", lambda *_: None)


def test_two_configurations_are_compared_by_line() -> None:
    lines = differing_lines({"a": 1, "b": 2, "c": 0}, {"a": 1, "b": 3, "c": 0})
    assert lines[1:] == ['  "a": 1,', '- "b": 2,', '+ "b": 3,', '  "c": 0']
    assert differing_lines({"a": 1}, {"a": 1}) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", "{'a': 1}"])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="the configuration is not"):
        parsed(text)


def test_mistakes_are_named_and_nothing_is_changed(paged: PagedWorker) -> None:
    text = json.dumps({"topics": ["orders"], "rate_messages": -1, "nonsense": 1})
    found = paged.browser().post(PATH, data={"config": text, "apply": "yes"})
    assert found.status_code == 400
    assert "rate_messages" in found.text
    assert "nonsense" in found.text
    assert paged.connectors.get("route").config["rate_messages"] == 0


def test_a_change_is_shown_then_applied(paged: PagedWorker) -> None:
    browser = paged.browser()
    assert "Check it" in browser.get("/page/connector/config?connector=route").text
    text = json.dumps({"topics": ["orders", "bills"]})
    shown = browser.post(PATH, data={"config": text})
    assert re.search(r'class="plus">\+  &#34;bills&#34;', shown.text)
    assert paged.connectors.get("route").config["topics"] == ["orders"]
    known = configuration.written(paged.connectors.get("route").config)
    applied = browser.post(PATH, data={"config": text, "known": known.replace("\n", "\r\n"), "apply": "yes"})
    assert applied.status_code == 303, applied.text
    assert paged.connectors.get("route").config["topics"] == ["orders", "bills"]
    stale = browser.post(PATH, data={"config": text, "known": known, "apply": "yes"})
    assert (stale.status_code, "somebody has changed the configuration meanwhile" in stale.text) == (400, True)


@pytest.mark.parametrize("deleted", [True, False])
def test_what_changed_while_it_was_checked_stays(
    paged: PagedWorker, monkeypatch: pytest.MonkeyPatch, *, deleted: bool
) -> None:
    """The clusters are asked whether it can be, and a rebalance is waited for: that takes seconds."""
    looks = iter([True, False])

    def changing_hands(_: object) -> bool:
        waits = next(looks)
        if waits and deleted:
            paged.connectors.delete("route")
        elif waits:
            paged.connectors.update("route", {"topics": ["orders"], "exclude_topics": ["secret"]})
        return waits

    known = configuration.written(paged.connectors.get("route").config)
    monkeypatch.setattr(type(paged.coordinator), "changing_hands", property(changing_hands))
    text = json.dumps({"topics": ["orders", "bills"]})
    found = paged.browser().post(PATH, data={"config": text, "known": known, "apply": "yes"})
    if deleted:
        assert (found.status_code, paged.connectors.all()) == (404, {})
    else:
        assert (found.status_code, "somebody has changed the configuration" in found.text) == (400, True)
        assert paged.connectors.get("route").config["exclude_topics"] == ["secret"]


def test_what_is_the_same_is_said_to_be(paged: PagedWorker) -> None:
    same = configuration.written(paged.connectors.get("route").config)
    assert "This is the configuration that it has." in paged.browser().post(PATH, data={"config": same}).text
