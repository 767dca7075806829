"""What is said where the name servers of a side do not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replicator.errors import Unreachable
from replicator.worker.unseen_sides import unseen_sides


def context(*, source: BaseException | None = None, target: BaseException | None = None) -> Any:
    def side(error: BaseException | None) -> Any:
        async def refresh() -> None:
            if error is not None:
                raise error

        return SimpleNamespace(cluster=SimpleNamespace(refresh=refresh))

    return SimpleNamespace(source=side(source), target=side(target))


async def test_each_side_has_its_own_words() -> None:
    """A source that is given up is not asked."""
    away = Unreachable("h:1", "refused")
    assert await unseen_sides(context()) == []
    (source,) = await unseen_sides(context(source=away))
    assert source == (
        "the brokers of the source cannot be looked up: h:1 cannot be reached (refused):"
        " what was created there lately is not copied; bring a name server back (`replicator doctor`)"
    )
    (target,) = await unseen_sides(context(source=away, target=away), source_dead=True)
    assert "the brokers of the target cannot be looked up" in target
    assert "applications would not find them" in target


async def test_a_bug_is_not_swallowed() -> None:
    with pytest.raises(RuntimeError):
        await unseen_sides(context(source=RuntimeError("a bug")))
