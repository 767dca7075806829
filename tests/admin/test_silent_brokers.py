"""Who does not answer one question is found in the time of one, however many do not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from replicator.admin import silent_brokers as under_test
from replicator.admin.silent_brokers import silent_brokers
from replicator.errors import RequestTimeout, Unreachable


def cluster(**answers: Any) -> Any:
    """Brokers by their names: what each does when it is asked."""

    def reader(name: str) -> Any:
        async def invoke(*_: object, **__: object) -> None:
            if isinstance(answers[name], BaseException):
                raise answers[name]
            await asyncio.sleep(answers[name])

        if answers[name] is None:
            raise Unreachable(name, "the name servers do not know it")
        return SimpleNamespace(address=f"{name}:10911", invoke=invoke)

    return SimpleNamespace(
        is_proxy=False, brokers=lambda: answers, reader=reader, vip_address=lambda at: at.replace("911", "909")
    )


async def test_who_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ports of a broker that hangs; one that nobody knows the place of is left to whoever needs it."""
    monkeypatch.setattr(under_test, "_SECONDS", 0.05)
    hung, refused = 60.0, Unreachable("c:10911", "Connection refused")
    begun = asyncio.get_running_loop().time()
    found = await silent_brokers(
        cluster(a=0.0, b=hung), cluster(c=refused, d=hung, e=None, f=RequestTimeout("f:10911", 26, 0.05))
    )
    assert asyncio.get_running_loop().time() - begun < 1.0
    assert found == {
        **dict.fromkeys(("b:10911", "b:10909", "d:10911", "d:10909"), "no answer within 0.05 s"),
        **dict.fromkeys(("f:10911", "f:10909"), "no answer within 0.05 s"),
        **dict.fromkeys(("c:10911", "c:10909"), "Connection refused"),
    }


async def test_a_proxy_is_not_asked_for_its_brokers() -> None:
    assert await silent_brokers(SimpleNamespace(is_proxy=True)) == {}  # type: ignore[arg-type]
