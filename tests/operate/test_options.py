"""Settings as flags of commands."""

from __future__ import annotations

import pytest

from replicator.operate.options import with_settings


def test_a_flag_for_what_is_not_a_setting_is_refused() -> None:
    """Or a renamed setting would silently lose its flag."""
    with pytest.raises(ValueError, match=r"not settings: \['group'\]"):
        with_settings(lambda flags: None, only=("group", "worker_group", "source", "acl"))
