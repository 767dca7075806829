"""The page as a whole: every view answers, errors are pages, and who may not is refused."""

from __future__ import annotations

import base64

import pytest

from replicator.api.access import Tokens
from replicator.page.rendering import HEADERS
from tests.support.page import TOPIC, PagedWorker

VIEWS = (
    *("/", "/page/topics", "/page/topic?connector=route&topic=orders", "/page/workers", "/page/readiness"),
    *("/page/metadata", "/page/errors", "/page/events", "/page/find", "/page/connector", "/page/failover"),
)
TOKENS = Tokens(admin="a-token", operate="o-token", read="r-token")


def basic(token: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"anybody:{token}".encode()).decode()}


@pytest.mark.parametrize("path", VIEWS)
def test_every_view_answers_with_its_policy(paged: PagedWorker, path: str) -> None:
    found = paged.browser().get(path)
    assert found.status_code == 200, found.text
    assert found.text.count("<h1>") == 1
    assert found.text.count('aria-current="page"') == (0 if "topic?" in path else 1)
    assert {name: found.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize("path", VIEWS)
def test_every_view_answers_where_there_is_nothing_yet(paged: PagedWorker, path: str) -> None:
    """But those of a connector, which say that there is none."""
    paged.connectors.delete("route")
    paged.publish()
    found = paged.browser().get(path)
    if found.status_code == 404:
        assert "connector" in found.text
    else:
        assert found.status_code == 200, found.text


def test_what_others_have_named_is_escaped_everywhere(paged: PagedWorker) -> None:
    evil = "<script>alert(1)</script>"
    paged.publish({**TOPIC, "topic": evil, "reason": evil, "failed": 1, "state": "FAILED"}, problems={evil: evil})
    for path in VIEWS:
        assert evil not in paged.browser().get(path).text, path


def test_errors_are_pages(paged: PagedWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = paged.browser()
    missing = browser.get("/page/nowhere")
    assert (missing.status_code, "There is no view /page/nowhere" in missing.text) == (404, True)
    unknown = browser.get("/page/connector?connector=none")
    assert (unknown.status_code, "there are: route" in unknown.text) == (404, True)
    assert browser.post("/page/topics").status_code == 405
    monkeypatch.setattr(paged.overview, "now", None)
    bug = browser.get("/")
    assert (bug.status_code, "this is a bug in the replicator" in bug.text) == (500, True)


def test_the_style_sheet_and_the_script_are_served(paged: PagedWorker) -> None:
    browser = paged.browser()
    for name, kind in (("page.css", "text/css"), ("page.js", "javascript"), ("icon.svg", "image/svg+xml")):
        found = browser.get(f"/page/static/{name}")
        assert (found.status_code, kind in found.headers["content-type"]) == (200, True)
        again = browser.get(f"/page/static/{name}", headers={"If-None-Match": found.headers["etag"]})
        assert again.status_code == 304
    assert browser.get("/page/static/../app.py").status_code == 404


@pytest.mark.parametrize(
    ("token", "reads", "operates"),
    [("a-token", 200, 303), ("o-token", 200, 303), ("r-token", 200, 403), ("x", 401, 401), ("", 401, 401)],
)
def test_the_token_is_the_password(paged: PagedWorker, token: str, reads: int, operates: int) -> None:
    browser = paged.browser(TOKENS)
    found = browser.get("/", headers=basic(token))
    assert found.status_code == reads
    if reads == 401:
        assert found.headers["www-authenticate"].startswith("Basic ")
    assert browser.post("/page/connectors/route/pause", headers=basic(token)).status_code == operates


def test_who_only_reads_is_shown_nothing_to_press(paged: PagedWorker) -> None:
    browser = paged.browser(TOKENS)
    for path in ("/page/connector", "/page/failover"):
        assert 'method="post"' in browser.get(path, headers=basic("o-token")).text
        assert 'method="post"' not in browser.get(path, headers=basic("r-token")).text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"origin": "http://127.0.0.1:8082"}, 303),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({}, 403),
    ],
)
def test_only_forms_of_ours_are_carried_out(paged: PagedWorker, headers: dict[str, str], status: int) -> None:
    """A browser sends the password along with whatever another site makes it send."""
    browser = paged.browser(TOKENS)
    del browser.headers["sec-fetch-site"]
    answered = browser.post("/page/connectors/route/pause", headers={**basic("o-token"), **headers})
    assert answered.status_code == status
    assert paged.connectors.get("route").state == ("PAUSED" if status == 303 else "RUNNING")
