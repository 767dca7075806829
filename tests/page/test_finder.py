"""The message finder: both sides, bodies for those who operate, and mistakes of the form in words."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from replicator.admin.message_lookup import NotACopy
from replicator.api.access import Tokens
from replicator.page import finder
from replicator.state.connector_configs import Unknown
from tests.support.page import PagedWorker

MESSAGE = {
    "stored": 1000.0,
    "born": 1000.0,
    "born_host": "10.0.0.3:51234",
    "size": 4,
    "compressed": False,
    "properties": {"KEYS": "k7"},
    "body": None,
    "body_kind": "",
    "body_cut": False,
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was asked for; the source has the message no more."""
    found: list[Any] = []

    async def by_offset(_w: object, _c: object, topic: str, queue: Any, offset: int, side: str) -> dict[str, Any]:
        found.append((topic, *queue, offset, side))
        return {"topic": topic, "broker": "other", "queue": 1, "offset": offset + 1}

    async def by_key(_w: object, _c: object, topic: str, key: str) -> list[dict[str, Any]]:
        place = {"topic": topic, "broker": "b", "queue": 0, "offset": 1}
        return [{"source": place, "target": place}]

    async def message_at(_w: object, side: str, place: Any, *, with_body: bool) -> dict[str, Any]:
        if side == "source":
            raise Unknown("the source has no message there")
        return {**MESSAGE, **({"body": "<canary>", "body_kind": "text"} if with_body else {})}

    for each in (by_offset, by_key, message_at):
        monkeypatch.setattr(finder, each.__name__, each)
    return found


def test_a_message_is_shown_on_both_sides(paged: PagedWorker, asked: list[Any]) -> None:
    text = paged.browser().get("/page/find?topic=orders&broker=east-a&queue=0&offset=7").text
    assert asked == [("orders", "east-a", 0, 7, "source")]
    assert "orders/east-a/0 offset 7" in text
    assert "orders/other/1 offset 8" in text
    assert "the source has no message there" in text
    assert "&lt;canary&gt;" in text
    assert "10.0.0.3:51234" in text
    assert "offset 1<" in paged.browser().get("/page/find?topic=orders&key=k7").text


def test_a_message_of_others_at_the_target_is_shown(
    paged: PagedWorker, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has nothing at the source, and is what somebody looks for who wants to know its producer."""

    async def by_offset(*_: object) -> dict[str, Any]:
        place = {"topic": "orders-there", "broker": "west-a", "queue": 0, "offset": 7}
        raise NotACopy("offset 7 is not a copy of this route: written by 10.0.0.3:51234", hint="", place=place)

    monkeypatch.setattr(finder, "by_offset", by_offset)
    text = paged.browser().get("/page/find?topic=orders&broker=west-a&queue=0&offset=7&side=target").text
    assert "is not a copy of this route: written by 10.0.0.3:51234" in text
    assert "orders-there/west-a/0 offset 7" in text
    assert "&lt;canary&gt;" in text


def test_bodies_are_not_for_those_who_only_read(paged: PagedWorker, asked: list[Any]) -> None:
    browser = paged.browser(Tokens(operate="o", read="r"))
    shown = {}
    for token in "or":
        password = base64.b64encode(f":{token}".encode()).decode()
        shown[token] = browser.get(
            "/page/find?topic=orders&key=k7", headers={"Authorization": f"Basic {password}"}
        ).text
    assert "canary" in shown["o"]
    assert "canary" not in shown["r"]
    assert "Bodies are shown to those with a token to operate." in shown["r"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("broker=a&queue=x&offset=1", "queue = &#39;x&#39; is not a whole number"),
        ("broker=a&queue=0&offset=-1", "offset = &#39;-1&#39; is not a whole number"),
        ("queue=0&offset=1", "no broker is given"),
    ],
)
def test_what_is_asked_for_must_be_complete(paged: PagedWorker, asked: list[Any], query: str, told: str) -> None:
    text = paged.browser().get(f"/page/find?topic=orders&{query}").text
    assert told in text
    assert asked == []
