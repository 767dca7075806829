"""The course of the demo, from its first process to its summary."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from replicator.command_output import Output, show
from replicator.demo import clusters, programs
from replicator.demo.orders import QUEUES, TOPIC
from replicator.demo.stop import Stop
from replicator.demo.traffic import Traffic
from replicator.demo.verdict import DemoReport, judge
from replicator.demo.view import View
from replicator.demo.worker import Worker
from replicator.exit_codes import ExitCode

__all__ = ["Steps", "run"]

#: Seconds without an order after which the wait for the consumer ends.
_IDLE_SECONDS: Final = 10.0


class Steps:
    """Says on `console` what has been done, each step with the seconds since the first."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    def say(self, line: str) -> None:
        """One step."""
        self._console.print(
            f"{time.monotonic() - self._began:5.1f} s  {line}", highlight=False, markup=False, soft_wrap=True
        )


async def run(*, seconds: float | None, version: str, console: Console, steps: Steps, output: Output) -> int:
    """Runs until a signal, or for `seconds`; returns the exit code.

    Raises:
        ReplicatorError: a part failed; all processes have been ended.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine
    stop = Stop(task)
    with stop.listening():
        try:
            return await _Stage(console, stop=stop, say=steps.say, version=version, output=output).run(seconds)
        except asyncio.CancelledError:
            if stop.signal is None:
                raise
            console.print("Ended at once; nothing was judged.")
            return 128 + stop.signal


class _Stage:
    def __init__(
        self, console: Console, *, stop: Stop, say: Callable[[str], None], version: str, output: Output
    ) -> None:
        self._console = console
        self._say = say
        self._output = output
        self._stop = stop
        self._version = version

    async def run(self, seconds: float | None) -> int:
        directory = Path(tempfile.mkdtemp(prefix="replicator-demo-"))
        keep = True
        try:
            code = await self._run_in(directory, seconds=seconds)
            keep = code != ExitCode.OK
            return code
        except asyncio.CancelledError:
            keep = False
            raise
        finally:
            if keep:
                self._say(f"logs and data are kept in {directory}.")
            else:
                shutil.rmtree(directory, ignore_errors=True)

    async def _run_in(self, directory: Path, *, seconds: float | None) -> int:
        async with AsyncExitStack() as stack:
            chosen = await programs.choose(directory, say=self._say)
            self._say(f"starting two clusters of RocketMQ {self._version}: east (source) and west (target) …")
            source, target = await stack.enter_async_context(
                clusters.started(self._version, directory, say=self._say)
            )
            await clusters.create_topic(source.namesrv, TOPIC, queues=QUEUES)
            self._say(f"topic {TOPIC} is created at east; starting the replicator …")
            worker = Worker(source.namesrv, target.namesrv, directory=directory)
            await stack.enter_async_context(worker.started())
            self._say(f"the replicator copies it; starting a producer and a consumer ({chosen.client}) …")
            traffic = Traffic(chosen, source=source.namesrv, target=target.namesrv)
            await stack.enter_async_context(traffic.started(directory))
            self._say("the producer sends orders to east, the consumer waits for them at west")
            view = View(self._console, source=source.namesrv, target=target.namesrv, version=self._version)
            self._stop.drain_from_now_on()
            if not self._console.is_terminal:
                self._say(f"source {source.namesrv}, target {target.namesrv}, metrics at {worker.metrics}")
                self._say(f"page {worker.page}, open it while the demo runs")
            with view:
                view.show_step(
                    "Ctrl-C drains and ends everything" if seconds is None else f"Runs for {seconds:g} s"
                )
                await self._flow(view, worker, traffic=traffic, seconds=seconds)
            self._say("reading the topic whole on both clusters …")
            verdict = await judge(source.namesrv, target.namesrv, topic=TOPIC)
            view.summary(verdict, traffic)
            if self._output is Output.JSON:
                show(
                    DemoReport.of(verdict, produced=traffic.produced, refused=traffic.refused, seen=traffic.seen),
                    Output.JSON,
                    Text(),
                )
        return ExitCode.OK if verdict.clean else ExitCode.NOT_AS_EXPECTED

    async def _flow(self, view: View, worker: Worker, *, traffic: Traffic, seconds: float | None) -> None:
        """Runs the traffic until the stop; returns when all orders are copied and the replicator has ended."""
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(_watch(view, worker, traffic=traffic))
                producing = group.create_task(traffic.produce(self._stop.wanted))
                group.create_task(traffic.consume())
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._stop.wanted.wait()
                self._stop.wanted.set()
                view.show_step("Draining: the producer stops, the replicator copies what is left")
                await producing
                in_time = await worker.caught_up(traffic.produced)
                await traffic.all_seen(traffic.produced, idle_seconds=_IDLE_SECONDS)
                watching.cancel()
                view.show_step(
                    "Ending the replicator" if in_time else "The replicator does not catch up; ending it"
                )
                view.show(worker, traffic)
                await worker.drain()
                await traffic.stop_consuming()
        except BaseExceptionGroup as failures:
            # The first is the cause: the others were cancelled because of it.
            raise failures.exceptions[0] from None


async def _watch(view: View, worker: Worker, *, traffic: Traffic) -> None:
    while True:
        await worker.poll()
        view.show(worker, traffic)
        await asyncio.sleep(view.interval)
