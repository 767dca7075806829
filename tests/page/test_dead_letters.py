"""The page of dead letters says what it does not show."""

from __future__ import annotations

import pytest

from replicator.admin.dead_letters import Latest, Letter
from replicator.page import dead_letters as module
from replicator.routing.provenance import Provenance
from tests.support.page import PagedWorker

LETTER = Letter(
    "west-a", 4, "orders", "too large", 5000, "", Provenance("east", "east", "east-a", 1, 17, 1000), 2000
)


@pytest.mark.parametrize(
    ("latest", "told"),
    [
        (Latest([], older=False), ["There are none."]),
        (Latest([], older=True), ["There are none among the latest", "There may be older ones"]),
        (Latest([(LETTER, None)], older=False), ["orders/east-a/1 offset 17"]),
        (Latest([(LETTER, None)], older=True), ["There may be older ones", "orders/east-a/1 offset 17"]),
    ],
)
def test_older_letters_are_told(
    paged: PagedWorker, monkeypatch: pytest.MonkeyPatch, latest: Latest, told: list[str]
) -> None:
    async def found(*_: object) -> Latest:
        return latest

    monkeypatch.setattr(module, "dead_letters", found)
    text = paged.browser().get("/page/dead-letters?connector=route").text
    ways = (
        "There are none.",
        "There are none among the latest",
        "There may be older ones",
        "orders/east-a/1 offset 17",
    )
    assert [each for each in ways if each in text] == told
