"""Bytes that a peer's system has not taken yet."""

from __future__ import annotations

import socket

from replicator.client.send_queue import unacknowledged
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
    assert unacknowledged(ours) == 0
    peer.close()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.listen()
        assert unacknowledged(listening) == 0
