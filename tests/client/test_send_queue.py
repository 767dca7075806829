"""Bytes that a peer's system has not taken yet."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace

import pytest

from replicator.client.send_queue import SendQueue, unacknowledged
from tests.support.worker import until


async def test_what_a_peer_does_not_read() -> None:
    """It is counted until the peer's system has room for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
    with ours, peer:
        ours.setblocking(False)
        peer.setblocking(False)
        assert unacknowledged(ours) == 0
        sent = 0
        try:
            while True:
                sent += ours.send(bytes(1 << 20))
        except BlockingIOError:
            pass
        there = 0
        assert 0 < unacknowledged(ours) <= sent

        def drained() -> bool:
            nonlocal there
            while there < sent:
                try:
                    there += len(peer.recv(1 << 20))
                except BlockingIOError:
                    break
            return there == sent and unacknowledged(ours) == 0

        await until(drained)


def test_a_socket_that_is_closed() -> None:
    """And one of a kind without such a queue."""
    ours, peer = socket.socketpair()
    ours.close()
    assert unacknowledged(ours) == unacknowledged(None) == 0
    peer.close()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.listen()
        assert unacknowledged(listening) == 0


class Line(asyncio.Transport):
    """A transport of which a test says what it still has."""

    def __init__(self, *, tls: bool) -> None:
        super().__init__({"sslcontext": object()} if tls else {})
        self.left = 0

    def get_write_buffer_size(self) -> int:
        return self.left


@pytest.mark.parametrize("tls", [False, True])
def test_what_the_peer_has_taken(tls: bool) -> None:
    """Byte by byte; with TLS a request counts as taken only where nothing is left of any."""
    line, clock = Line(tls=tls), SimpleNamespace(now=0.0)
    queue = SendQueue(line, None, lambda: clock.now)
    queue.given, line.left = 100, 60
    queue.measure()
    assert (queue.taken, queue.has_taken(40), queue.has_taken(41)) == (40, not tls, False)
    line.left = 0
    queue.measure()
    assert queue.taken == 100
    assert queue.has_taken(100)


def test_a_line_moves_while_something_left_gets_less() -> None:
    """Not where nothing is left, and not because more is given."""
    line, clock = Line(tls=False), SimpleNamespace(now=0.0)
    queue = SendQueue(line, None, lambda: clock.now)
    queue.measure()
    assert not queue.is_moving
    queue.given, line.left, clock.now = 100, 100, 50.0
    queue.measure()
    assert not queue.is_moving
    line.left = 99
    queue.measure()
    assert queue.is_moving
    queue.given, line.left, clock.now = 200, 199, 59.9
    queue.measure()
    assert queue.is_moving
    clock.now = 60.1
    assert not queue.is_moving
