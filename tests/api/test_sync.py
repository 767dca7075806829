"""What a request to apply the plan is answered where the worker that runs the metadata task takes too long."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from replicator.api import sync as under_test
from replicator.api.envelope import NotDone, NotFinished, status_of


@pytest.mark.parametrize(("taken", "kind", "status"), [(False, NotDone, 503), (True, NotFinished, 504)])
async def test_whether_it_was_begun(
    taken: bool, kind: type[NotDone | NotFinished], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun may still be at work, what was not never will be."""
    monkeypatch.setattr(under_test, "_ANSWER_SECONDS", 0.0)
    worker: Any = Mock(changed=AsyncMock())
    ledger: Any = Mock(answered=Mock(return_value=None), is_taken=Mock(return_value=taken))
    with pytest.raises(kind) as refused:
        await under_test._applied(worker, "route", ledger, [])
    assert status_of(refused.value) == status
    ledger.withdraw.assert_called_once()
