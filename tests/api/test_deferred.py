"""The HTTP application is made by the first request, once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from replicator.api.deferred import Application, Deferred


async def _ask(app: Application) -> list[str]:
    answers: list[str] = []
    await app({}, None, answers.append)
    return answers


async def test_requests_that_come_first_make_it_once() -> None:
    made: list[int] = []

    def make() -> Application:
        made.append(1)

        async def application(_scope: Any, _receive: Any, send: Any) -> None:
            send("answer")

        return application

    app = Deferred(make)
    assert not made
    answers = await asyncio.gather(_ask(app), _ask(app), _ask(app))
    assert list(answers) == [["answer"]] * 3
    assert made == [1]


async def test_what_cannot_be_made_is_told_to_each_request() -> None:
    def make() -> Application:
        raise ImportError("half an installation")

    app = Deferred(make)
    for _ in range(2):
        with pytest.raises(ImportError, match="half an installation"):
            await _ask(app)
