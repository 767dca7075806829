"""Everything is escaped, and nothing in a page needs more than its policy allows."""

from __future__ import annotations

import re

import pytest
from jinja2 import UndefinedError

from replicator.page.rendering import HEADERS, STATIC, link, render

TEMPLATES = STATIC.parent / "templates"


def test_links_are_escaped() -> None:
    assert link("/page/topic", connector="a&b", topic="%RETRY%g", q="", page=None) == (
        "/page/topic?connector=a%26b&topic=%25RETRY%25g"
    )
    assert link("/page/connectors/ü x/pause") == "/page/connectors/%C3%BC%20x/pause"


def test_what_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render("refused.html")


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.html")), ids=lambda path: path.name)
def test_no_template_has_what_the_policy_forbids_or_leaves_out_escaping(path: str) -> None:
    text = TEMPLATES.joinpath(path).read_text(encoding="utf-8")
    assert not re.search(r"\sstyle=|\son[a-z]+=|javascript:|<style|\|\s*safe\b|autoescape|https?://", text)
    assert re.findall(r"<script[^>]*>", text) in ([], ['<script src="/page/static/page.js" defer>'])


def test_the_policy() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert HEADERS["Referrer-Policy"] == "same-origin", "with no-referrer a form would come from `null`"


def test_style_and_script_load_nothing_of_others() -> None:
    for path in STATIC.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\(|innerHTML|eval\(", text), path
