"""Tables of what a worker answers."""

from __future__ import annotations

import pytest

from replicator.operate.show import cell


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "yes"), (False, ""), (None, ""), (1234567, "1,234,567"), (0.25, "0.2"), ("RUNNING", "RUNNING")],
)
def test_cells(value: object, shown: str) -> None:
    """As people read them."""
    assert cell(value).plain == shown
