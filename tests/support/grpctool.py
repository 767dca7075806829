"""The official gRPC client as a witness, through a Proxy: it sends, and consumes by a consumer of any kind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from tests.support.javatool import SOURCES, compiled, run_java

__all__ = ["Got", "grpc_consume", "grpc_produce", "judge_exact"]

_JARS = "grpc-client"


@dataclass(frozen=True, slots=True)
class Got:
    """A message that a consumer received: how often, its message group, and whether it was acknowledged."""

    body: str
    attempt: int
    group: str
    acknowledged: bool


async def grpc_produce(
    proxy: str, topic: str, count: int, *, start: int = 0, type_: str = "normal", **options: object
) -> None:
    """Sends the numbers from `start` on as bodies; of transactions each fifth is rolled back."""
    await _run(proxy, "produce", topic=topic, count=count, type=type_, **{"from": start, **_named(options)})


async def grpc_consume(
    proxy: str,
    topic: str,
    group: str,
    *,
    count: int = 0,
    hold: Collection[str] | str = (),
    mode: Literal["simple", "push", "lite"] = "simple",
    **options: object,
) -> list[Got]:
    """Receives `count` messages, or until none came for `idle_s`; those of `hold` (or "all") it keeps.

    A consumer of lite topics is bound to their parent, `topic`; `lite` are their names, separated by commas.

    The process then ends without giving them back, as if its machine had failed.
    """
    held = hold if isinstance(hold, str) else ",".join(hold)
    lines = await _run(proxy, mode, topic=topic, group=group, count=count, hold=held, **_named(options))
    found = map(json.loads, lines)
    return [Got(each["body"], each["attempt"], each["group"], each["acknowledged"]) for each in found]


def judge_exact(before: list[Got], after: list[Got], wanted: set[str]) -> None:
    """What was held comes again, marked as a further attempt, and what was never delivered; nothing else."""
    done = {each.body for each in before if each.acknowledged}
    held = {each.body for each in before if not each.acknowledged}
    assert Counter(each.body for each in after) == Counter(wanted - done)
    assert {each.body for each in after if each.attempt > 1} == held


def _named(options: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "-"): value for name, value in options.items()}


async def _run(proxy: str, mode: str, **options: object) -> list[str]:
    classpath = await compiled(sorted((SOURCES / "grpc").glob("*.java")), version=_JARS)
    arguments = [proxy, mode, *(f"{name}={value}" for name, value in options.items())]
    return await run_java("Grpc", arguments, classpath=classpath, archive=_JARS)
