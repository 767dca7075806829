"""Settings of a route that its metadata goes by."""

from __future__ import annotations

from replicator.connector.sync.options import sync_options
from replicator.settings import RouteSettings
from tests.connector.sync.conftest import Setup


def test_settings_are_taken_over(setup: Setup) -> None:
    settings = RouteSettings(
        sync_groups=["a.*"], exclude_groups=["ab"], protect_target=True, on_drift="repair", sync_deletes=True
    )
    made = sync_options(settings, setup.context)
    assert [made.selector.selects(name) for name in ("a", "ab", "b")] == [True, False, False]
    assert (made.identity, made.protect, made.repair, made.deletes) == (setup.context.identity, True, True, True)
    usual = sync_options(RouteSettings(), setup.context)
    assert (usual.protect, usual.repair, usual.deletes) == (False, False, False)
