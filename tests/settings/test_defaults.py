"""How a default is written where a setting is described: as it may be given."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator.settings import setting_fields
from replicator.settings.defaults import default_text

FIELDS = dict(setting_fields())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retry_topics", "false"),
        ("sync_topics_interval", "10"),
        ("audit_share", "1"),
        ("heartbeat_interval", "1"),
        ("memory_bytes", "32 MiB"),
        ("rate_bytes", "0"),
        ("rate_messages", "0"),
        ("sync", "topics,groups,offsets,pending"),
        ("tags", ""),
        ("source.namesrv", ""),
        ("worker_id", ""),
        ("on_gap", "skip"),
        ("store_path", "replicator-store"),
    ],
)
def test_defaults(name: str, text: str) -> None:
    assert default_text(FIELDS[name]) == text


def test_no_page_shows_a_default_as_python_writes_it() -> None:
    """It is copied into TOML."""
    page = (Path(__file__).parent.parent.parent / "docs" / "CONFIG.md").read_text()
    assert "`False`" not in page
    assert "`10.0`" not in page
