"""Writes the dashboards and the page that lists them."""

from __future__ import annotations

from tools.dashboards.page import FILES

for path, text in FILES.items():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
