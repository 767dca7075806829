"""What to type for an extra: with the place that the package came from, since no index may have it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from replicator import extras


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'rocketmq-replicator[spark]'"),
        ({"url": "https://there/a.whl", "archive_info": {}}, "pip install 'rocketmq-replicator[spark]'"),
        ({"url": "file:///opt/the%20code", "dir_info": {}}, "pip install '/opt/the code[spark]'"),
        ({"url": "file:///code", "dir_info": {"editable": True}}, "pip install -e '/code[spark]'"),
        ({"url": "file:///dist/a.whl", "archive_info": {}}, "pip install '/dist/a.whl[spark]'"),
    ],
)
def test_where_the_package_came_from(
    origin: dict[str, Any] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index, another machine, a checkout, or a wheel."""
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(extras, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    assert extras.install_command("spark") == command
