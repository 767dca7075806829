"""An event loop in virtual time whose sockets lead into the simulated network: what a worker's process runs on."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from asyncio import events
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from tests.simulation.kernel import Process, Urgency
from tests.simulation.network import Host, Network

__all__ = ["SimLoop"]

T = TypeVar("T")
#: Seconds that work in a thread takes at most.
_THREAD = 0.05


class SimLoop(asyncio.AbstractEventLoop):
    """The loop of `process` on `host`.

    `failures` are the contexts of what asyncio would have logged: exceptions that nobody has retrieved.
    """

    def __init__(self, process: Process, host: Host, network: Network) -> None:
        self.process = process
        self.failures: list[dict[str, Any]] = []
        self.writers: dict[int, asyncio.Handle] = {}
        self._host = host
        self._network = network
        self._kernel = process.kernel
        self._finalizer = self._close_generator

    # Callbacks.

    def _do(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            self.within(handle._run)

    def within(self, do: Callable[[], object]) -> None:
        """Calls `do` as this loop would."""
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(finalizer=self._finalizer)  # no other loop runs between two of these
        try:
            do()
        finally:
            events._set_running_loop(None)

    def _close_generator(self, generator: Any) -> None:
        if self.process.alive:
            self.create_task(generator.aclose())

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._kernel.plan(0.0, lambda: self._do(handle), self.process, Urgency.READY)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        delay = self.process.at(when) - self._kernel.now
        self._kernel.plan(delay, lambda: self._do(handle), self.process, Urgency.TIMER)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def time(self) -> float:
        return self.process.monotonic()

    # Tasks.

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T] | Awaitable[T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)  # type: ignore[arg-type]
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Done at some moment within a few hundredths of a second; a process that dies before has not done it."""
        future: asyncio.Future[T] = self.create_future()
        chance = self._kernel.random
        begun, rest = (chance.uniform(0, _THREAD) for _ in range(2))

        def work() -> None:
            try:
                result = func(*args)
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                self.call_later(rest, lambda error=error: None if future.done() else future.set_exception(error))
            else:
                self.call_later(rest, lambda: None if future.done() else future.set_result(result))

        self._kernel.plan(begun, work, self.process, Urgency.READY)
        return future

    # Sockets.

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self._network.connect(self, self._host, protocol_factory, f"{host}:{port}")

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self.writers[fd] = asyncio.Handle(callback, args, self, None)
        self._network.watch_writable(fd)

    def remove_writer(self, fd: Any) -> bool:
        return self.writers.pop(fd, None) is not None

    def writable(self, fd: int) -> None:
        """The socket with the descriptor `fd` takes more bytes."""
        handle = self.writers.get(fd)
        if handle is not None:
            self._do(handle)

    # The rest.

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def close(self) -> None:
        pass
