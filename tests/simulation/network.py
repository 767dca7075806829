"""TCP between simulated processes: connections whose bytes take time, and that are cut, reset and stopped.

Within one direction of one connection bytes keep their order; between connections anything may overtake anything.
A direction between two hosts that is cut delivers nothing until it is healed, as TCP goes on trying. What a process
has written before its death is still delivered, as the system does.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import random
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from tests.simulation.kernel import Process, Urgency

if TYPE_CHECKING:
    from tests.simulation.loop import SimLoop

__all__ = ["Host", "Network", "Session", "Wire"]

#: Seconds between two attempts to reach a host that does not answer.
_SYN: Final = 1.0


class Session(Protocol):
    """The server's end of a connection."""

    def received(self, data: bytes) -> None: ...

    def lost(self) -> None: ...


class Host:
    """A machine with one process on it. `listening` makes the server's ends of new connections, by port."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.listening: dict[int, Callable[[Wire], Session]] = {}
        self.wires: dict[int, Wire] = {}


class _Stream:
    """One direction of a connection."""

    def __init__(self, network: Network, sender: Host, receiver: Host, deliver: Callable[[bytes], None]) -> None:
        self.size = 0
        self.ended = False
        self._network = network
        self._sender = sender
        self._receiver = receiver
        self._deliver = deliver
        self._last = 0.0
        self._held: list[bytes | None] = []
        self._sent: deque[bytes | None] = deque()
        self.on_end: Callable[[], None] = lambda: None
        self.on_room: Callable[[], None] = lambda: None

    def send(self, data: bytes | None) -> None:
        """Bytes; None ends the stream after all that was sent before."""
        if self.ended:
            return
        self.ended = data is None
        self.size += len(data or b"")
        if self._held or self._network.is_cut(self._sender, self._receiver):
            self._held.append(data)
            return
        self._go(data)

    def _go(self, data: bytes | None) -> None:
        kernel = self._network.kernel
        self._last = max(self._last, kernel.now + self._network.latency(self._sender, self._receiver))
        self._sent.append(data)
        process = self._receiver.process  # the one of now: its successor knows nothing of this connection
        kernel.plan(self._last - kernel.now, self._arrive, process, Urgency.ARRIVED)

    def _arrive(self) -> None:
        if not self._sent:
            return
        if self._network.is_cut(self._sender, self._receiver):
            self._held, self._sent = [*self._sent, *self._held], deque()
            return
        data = self._sent.popleft()
        if data is None:
            self.on_end()
            return
        self.size -= len(data)
        self._deliver(data)
        self.on_room()

    def heal(self) -> None:
        held, self._held = self._held, []
        for data in held:
            self._go(data)

    def end_now(self) -> None:
        """The end, after what is left under way."""
        self._go(None)

    def break_off(self, chance: random.Random, *, sure: bool = False) -> None:
        """Nothing more is sent; what is under way is gone after some point, or all of it where that is sure."""
        self.ended = True
        under_way = [*self._sent, *self._held]
        kept = 0 if sure else chance.randint(0, len(under_way))
        if self._held:
            self._held.clear()
        while len(self._sent) > kept:
            self.size -= len(self._sent.pop() or b"")


class Wire:
    """A connection that `client` has made to `server`."""

    def __init__(self, network: Network, loop: SimLoop, client: Host, server: Host) -> None:
        self.number = next(network.numbers)
        self.network = network
        self.loop = loop
        self.client = client
        self.server = server
        self.linger = False
        self.gone = False
        self.capacity = network.capacity()
        self.session: Session | None = None
        self.protocol: asyncio.BufferedProtocol | None = None
        self.sockets: list[SimSocket] = []
        self.up = _Stream(network, client, server, self._to_server)
        self.down = _Stream(network, server, client, self._to_client)
        self.up.on_end = self._server_ends
        self.up.on_room = self._has_room
        self.down.on_end = lambda: self._client_ends(None)

    def _to_server(self, data: bytes) -> None:
        if self.session is not None:
            self.session.received(data)

    def _to_client(self, data: bytes) -> None:
        if self.protocol is not None:
            self.loop.within(lambda: self._feed(data))

    def _feed(self, data: bytes) -> None:
        while data and self.protocol is not None:
            room = cast("memoryview", self.protocol.get_buffer(len(data)))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            data = data[size:]
            self.protocol.buffer_updated(size)

    def _has_room(self) -> None:
        for each in self.sockets:
            each.writable()

    def _server_ends(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.lost()

    def _client_ends(self, error: Exception | None) -> None:
        protocol, self.protocol = self.protocol, None
        self.forget()
        if protocol is not None:
            self.loop.within(lambda: protocol.connection_lost(error))

    def forget(self) -> None:
        self.gone = True
        self.client.wires.pop(self.number, None)
        self.server.wires.pop(self.number, None)

    # How it ends.

    def close(self) -> None:
        """The client ends it: what it wrote is still delivered, unless it wanted that to be thrown away."""
        if self.gone:
            return
        self.forget()
        self.protocol = None
        kernel = self.network.kernel
        if self.linger:
            self.up.break_off(kernel.random)
            self.up.end_now()
        else:
            self.up.send(None)
        self.down.break_off(kernel.random, sure=True)

    def reset(self, *, answers: bool = False) -> None:
        """Both ends lose it, and some of what is under way; where `answers`, only what comes from the server."""
        if self.gone:
            return
        self.forget()
        kernel = self.network.kernel
        if not answers:
            self.up.break_off(kernel.random)
        self.up.end_now()
        self.down.break_off(kernel.random, sure=True)
        error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        after = self.network.latency(self.server, self.client)
        kernel.plan(after, lambda: self._client_ends(error), self.client.process)

    def server_died(self) -> None:
        """What the server wrote still comes, then the end; what was on its way to it is gone."""
        self.up.break_off(self.network.kernel.random, sure=True)
        self.session = None
        self.down.send(None)


class SimSocket:
    """What code that wants the socket itself gets."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._number = next(wire.network.numbers)
        self._open = True
        self._wanted = False
        wire.sockets.append(self)
        wire.network.sockets[self._number] = self

    def fileno(self) -> int:
        return self._number if self._open and not self._wire.gone else -1

    @property
    def unacknowledged(self) -> int:
        """Bytes on their way to the server."""
        return 0 if self._wire.gone else self._wire.up.size

    def dup(self) -> SimSocket:
        return SimSocket(self._wire)

    def setblocking(self, _: bool) -> None:
        pass

    def setsockopt(self, _: int, option: int, __: object) -> None:
        self._wire.linger = self._wire.linger or option == socket.SO_LINGER

    def sendmsg(self, pieces: Sequence[bytes | memoryview]) -> int:
        wire = self._wire
        if wire.gone:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        room = wire.capacity - wire.up.size
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data = b"".join(pieces)[:room]
        wire.up.send(data)
        return len(data)

    def want(self) -> None:
        """Somebody waits until it can be written to."""
        self._wanted = True

    def writable(self) -> None:
        if self._wanted and self._open and not self._wire.gone:
            self._wire.network.tell_writable(self._wire, self._number)

    def close(self) -> None:
        self._open = False
        if self in self._wire.sockets:
            self._wire.sockets.remove(self)
        self._wire.network.sockets.pop(self._number, None)


class ClientTransport(asyncio.Transport):
    """The client's end."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire
        self._socket = SimSocket(wire)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket if name == "socket" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0  # the wire takes it at once

    def write(self, data: Any) -> None:
        if not self._wire.gone:
            self._wire.up.send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._wire.gone

    def abort(self) -> None:
        self._wire.close()

    def close(self) -> None:
        self._wire.close()


class Network:
    """All hosts by address, and what is wrong between them; `slow` are the seconds that a host is away from all."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.hosts: dict[str, Host] = {}
        self.numbers = itertools.count(100)
        self.sockets: dict[int, SimSocket] = {}
        self.slow: dict[str, float] = {}
        self.jitter = 0.002
        self._cuts: dict[tuple[str, str], int] = {}

    def capacity(self) -> int:
        """Bytes that a new connection holds on their way; small ones make writers wait."""
        return int(self.kernel.random.choice((4_000, 64_000, 1_000_000, 4_000_000)))

    def latency(self, one: Host, other: Host) -> float:
        base = self.slow.get(one.name, 0.0002) + self.slow.get(other.name, 0.0002)
        return base + float(self.kernel.random.random()) * self.jitter

    # Connections.

    async def connect(self, loop: SimLoop, client: Host, protocol_factory: Any, address: str) -> Any:
        name, _, port = address.rpartition(":")
        server = self.hosts.get(name)
        if server is None:
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
        while self.is_cut(client, server) or self.is_cut(server, client):  # noqa: ASYNC110 - so does TCP
            await asyncio.sleep(_SYN)
        await asyncio.sleep(2 * self.latency(client, server))
        accept = server.listening.get(int(port)) if server.process.alive else None
        if accept is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        wire = Wire(self, loop, client, server)
        client.wires[wire.number] = server.wires[wire.number] = wire
        wire.session = accept(wire)
        protocol = protocol_factory()
        wire.protocol = protocol
        transport = ClientTransport(wire)
        protocol.connection_made(transport)
        return transport, protocol

    def watch_writable(self, number: int) -> None:
        self.sockets[number].want()

    def tell_writable(self, wire: Wire, number: int) -> None:
        self.kernel.plan(0.0, lambda: wire.loop.writable(number), wire.client.process, Urgency.ARRIVED)

    # Faults.

    def is_cut(self, sender: Host, receiver: Host) -> bool:
        return (sender.name, receiver.name) in self._cuts

    def cut(self, sender: str, receiver: str) -> None:
        """From now on nothing comes from `sender` to `receiver`."""
        pair = sender, receiver
        self._cuts[pair] = self._cuts.get(pair, 0) + 1

    def heal(self, sender: str, receiver: str) -> None:
        """What was cut once is whole again; what was cut twice has to be healed twice."""
        pair = sender, receiver
        if pair not in self._cuts:
            return
        self._cuts[pair] -= 1
        if self._cuts[pair]:
            return
        del self._cuts[pair]
        for wire in list(self.hosts[sender].wires.values()):
            if wire.client.name == sender and wire.server.name == receiver:
                wire.up.heal()
            elif wire.server.name == sender and wire.client.name == receiver:
                wire.down.heal()

    def died(self, host: Host) -> None:
        """The process on `host` has just been killed."""
        for wire in list(host.wires.values()):
            if wire.client is host:
                wire.protocol = None
                wire.forget()
                wire.up.send(None)
                wire.down.break_off(self.kernel.random, sure=True)
            else:
                wire.server_died()
