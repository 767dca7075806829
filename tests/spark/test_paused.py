"""A task whose process stood still while Spark had its range copied by another attempt."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys

from replicator.ranges.copier import copy_range
from replicator.ranges.copy_job import Range
from tests.ranges.test_copier import job_of, msgs, ranges_of
from tests.spark.waiting import ends
from tests.support.scene import SceneOf
from tests.support.worker import until

_TASK = """
import asyncio, functools, pickle, sys
from replicator.errors import ReplicatorError
from replicator.ranges import copier, suspend_guard
copier.awake = functools.partial(suspend_guard.awake, limit=float(sys.argv[1]))
try:
    asyncio.run(copier.copy_range(*pickle.load(sys.stdin.buffer)))
except ReplicatorError as error:
    sys.exit(str(error))
"""
#: Seconds after which a process is taken for one that stood still, here.
LIMIT = 1.0


async def test_a_process_that_stood_still_sends_no_more(scene: SceneOf) -> None:
    """Neither what it had pulled nor what comes: it ends with an error, and nothing is there twice."""
    async with scene() as here:
        await here.produce(12_000)
        (part, *others) = await ranges_of(here, 3000)
        job = job_of(here, rate_messages=1000)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _TASK, str(LIMIT)),
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(pickle.dumps((job, part)))
        process.stdin.write_eof()

        async def copies() -> bool:
            assert process.returncode is None
            return sum(await ends(here.target, here.topic)) > 300

        await until(copies, what="it copies")
        os.kill(process.pid, signal.SIGSTOP)
        try:
            began = asyncio.get_running_loop().time()
            done = await asyncio.gather(*(copy_range(job_of(here), each) for each in (part, *others)))
            assert 0 < done[0].before < 3000
            await until(lambda: asyncio.get_running_loop().time() > began + 2 * LIMIT)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        _, told = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 1
        assert "the lease has expired: others may own this queue by now" in told.decode()
        again = await copy_range(job_of(here), Range(*msgs(part), 0, 3000))
        assert (again.before, again.duplicates) == (3000, 0)
        await here.assert_clean(12_000)
