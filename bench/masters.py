"""The masters on which the Spark commands run: given by URL, and a standalone cluster of our own."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.files import made
from tests.support.standalone import standalone

__all__ = ["DEFAULT", "STANDALONE", "Master", "masters"]

#: A master and two workers of one core each, on this machine, started for the benchmark.
STANDALONE = "standalone"
DEFAULT = ("local[2,4]", STANDALONE)
_WORKERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """`slots`: concurrent tasks; `helpers`: processes whose CPU and memory count as those of its commands."""

    name: str
    url: str
    slots: int = 1
    helpers: Sequence[int] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@asynccontextmanager
async def masters(names: Sequence[str], *, directory: Path) -> AsyncIterator[list[Master]]:
    """The masters in `names`; our own are stopped with the context."""
    async with AsyncExitStack() as stack:
        found = []
        for name in names:
            if name == STANDALONE:
                cluster = await stack.enter_async_context(standalone(made(directory), workers=_WORKERS))
                found.append(
                    Master(
                        name=f"standalone, {_WORKERS} workers",
                        url=cluster.url,
                        slots=_WORKERS,
                        helpers=cluster.pids,
                        environment={"SPARK_LOCAL_IP": "127.0.0.1"},
                    )
                )
            else:
                # For other masters the number is not known here.
                slots = int(local[1]) if (local := re.match(r"local\[(\d+)", name)) else 1
                found.append(Master(name=name, url=name, slots=slots))
        yield found
