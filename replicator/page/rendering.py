"""Templates, always with everything escaped, and the headers of every answer of the page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from replicator.observe.pending_lines import pending_lines, released_lines
from replicator.page import words

__all__ = ["HEADERS", "STATIC", "link", "render"]

_HERE: Final = Path(__file__).parent
#: Where the style sheet and the script are.
STATIC: Final = _HERE / "static"

#: Nothing is loaded but from here, nothing runs that stands in a page, no other site shows it in a frame, and forms
#: go nowhere else. The referrer stays here; with `no-referrer` browsers would not say where a form comes from.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def link(path: str, **query: object) -> str:
    """A path of ours with its query; what is None or empty is left out."""
    given = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return f"{quote(path)}?{urlencode(given)}" if given else quote(path)


def _today() -> str:
    """Of events of other days the page shows the day, too."""
    return datetime.now(UTC).date().isoformat()


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": words.number,
        "per_second": words.per_second,
        "ago": words.ago,
        "clock": words.clock,
        "size": words.size,
        "kind": words.kind_of,
        "pending": pending_lines,
        "released": released_lines,
    }
    made.globals |= {"link": link, "today": _today}
    return made


_ENVIRONMENT: Final = _environment()


def render(template: str, **values: Any) -> str:
    """The HTML that a template makes of `values`."""
    return _ENVIRONMENT.get_template(template).render(**values)
