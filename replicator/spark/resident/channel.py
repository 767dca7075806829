"""The connection between a Spark task and the worker that owns its queues: frames that only these two can make.

The worker greets with a random nonce. After that each frame is its length (u32), an HMAC-SHA256 by the job's key,
and a body (MessagePack). The HMAC covers the nonce, who speaks, how many frames they sent before, and the body:
nothing can be forged, replayed, left out or put into another order. Nothing in it is secret; it is not encrypted.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from typing import Final, Literal

from replicator.errors import ReplicatorError

__all__ = ["MOST", "Channel", "ChannelLost"]

#: Bytes of the number that is signed with each frame of a connection: 128 random bits never come twice, so that no
#: frame of another connection passes.
_NONCE: Final = 16
#: Bytes of an HMAC with SHA-256, which precedes the body of each frame.
_DIGEST: Final = 32
#: Bytes of a frame, at most; what is larger is sent in several.
MOST: Final = 16 * 1024 * 1024
#: Seconds within which the other side must greet.
_GREETING: Final = 10.0

Side = Literal["worker", "task"]


class ChannelLost(ReplicatorError):
    """The other side is gone, or is not who it should be."""


class Channel:
    """One end of a connection; `side` is who speaks here."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        key: bytes,
        nonce: bytes,
        side: Side,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._key = key
        self._nonce = nonce
        self._side: Side = side
        self._sent = 0
        self._received = 0

    @classmethod
    async def connect(cls, address: tuple[str, int], key: bytes) -> Channel:
        """The task's end of a new connection.

        Raises:
            ChannelLost: the worker does not answer at `address`.
        """
        try:
            async with asyncio.timeout(_GREETING):
                reader, writer = await asyncio.open_connection(*address)
                nonce = await reader.readexactly(_NONCE)
        except (OSError, asyncio.IncompleteReadError) as error:  # a timeout is an OSError
            raise ChannelLost(
                f"the worker at {address[0]}:{address[1]} does not answer: {error!r}",
                hint="executors must reach the driver's host, spark.driver.host",
            ) from None
        return cls(reader, writer, key=key, nonce=nonce, side="task")

    @classmethod
    async def accept(cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes) -> Channel:
        """The worker's end of a new connection."""
        nonce = secrets.token_bytes(_NONCE)
        writer.write(nonce)
        return cls(reader, writer, key=key, nonce=nonce, side="worker")

    def send(self, body: bytes) -> None:
        """Sends a frame; what the other side does not take is lost with the connection."""
        if self._writer.is_closing():
            return
        self._writer.write(len(body).to_bytes(4) + self._digest(self._side, self._sent, body) + body)
        self._sent += 1

    async def receive(self, most: int = MOST) -> bytes:
        """The next frame, of `most` bytes at most.

        Raises:
            ChannelLost: there is none, or the other side did not send it.
        """
        try:
            size = int.from_bytes(await self._reader.readexactly(4))
            if size > most:
                raise ChannelLost(f"a frame of {size} bytes")
            digest, body = await self._reader.readexactly(_DIGEST), await self._reader.readexactly(size)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ChannelLost(f"the connection ended: {error}") from None
        other: Side = "task" if self._side == "worker" else "worker"
        if not hmac.compare_digest(digest, self._digest(other, self._received, body)):
            raise ChannelLost("a frame that the other side did not send")
        self._received += 1
        return body

    def close(self) -> None:
        """Ends the connection."""
        self._writer.close()

    def _digest(self, side: Side, number: int, body: bytes) -> bytes:
        return hmac.digest(self._key, b"%b %b %d\n%b" % (self._nonce, side.encode(), number, body), "sha256")
