"""Writes docs/openapi.json: REST as the program itself describes it, so that reviews show its changes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from replicator.api.app import make_app

PAGE = Path(__file__).parent.parent / "docs" / "openapi.json"


def document() -> dict[str, Any]:
    """The OpenAPI document; it is generated without a worker."""

    async def no_metrics() -> bytes:
        return b""

    nobody = cast("Any", SimpleNamespace(connectors=None))
    app = make_app(nobody, metrics=no_metrics, stopping=lambda: False)
    return app.openapi()


def page() -> str:
    """The file's content."""
    return json.dumps(document(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
