"""The documentation as a site: MkDocs builds it strictly, and every link in what it has made leads somewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tools import site

pytest.importorskip("mkdocs", reason="`make nightly` installs it")


class Page(HTMLParser):
    """The links of a page of the site, and what may be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in {"href", "src"} and value and not urlsplit(value).scheme and not value.startswith("//"):
                self.links.add(value)


def broken(directory: Path) -> list[str]:
    """Each link of a page to a file or an anchor that is not in the site."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(directory.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.name == "404.html":  # whose links begin where the site will be
            continue
        for link in sorted(page.links):
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            anchor = unquote(parts.fragment)
            if not target.is_file() or (target in pages and anchor not in pages[target].anchors):
                found.append(f"{path.relative_to(directory)}: {link}")
    return found


def test_it_is_built_and_its_links_hold(tmp_path: Path) -> None:
    directory = tmp_path.resolve() / "site"
    assert site.build(directory) == 0
    for name in site.pages():
        page = directory / name.removesuffix(".md")
        assert (page / "index.html").is_file() or page.name == "README", name
    assert (directory / "index.html").is_file()
    assert broken(directory) == []


def test_what_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="there"><a href="b.html">b</a> <a href="#not">c</a> <a href="#there">d</a>'
    )
    assert broken(tmp_path) == ["a.html: #not", "a.html: b.html"]
