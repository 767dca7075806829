"""The data path of one queue, put together: source task, channel, sink task."""

from __future__ import annotations

from collections.abc import Callable

from replicator.client.connection import Connection
from replicator.client.system_topics import is_group_topic
from replicator.routing.batcher import Batcher
from replicator.routing.channel import Channel, Source
from replicator.routing.packing import Packer
from replicator.routing.provenance import Stamp
from replicator.routing.shared import Shared
from replicator.routing.sink_task import SinkTask
from replicator.routing.source_side import SourceSide
from replicator.routing.state import QueueState
from replicator.routing.transforming import Transforming

__all__ = ["DataPath"]


class DataPath:
    """Copies from the position of `state` on, until either side ends it; made by `open`."""

    def __init__(self, source: Source, channel: Channel, sink: SinkTask) -> None:
        self.source = source
        self.sink = sink
        self._channel = channel

    @classmethod
    async def open(
        cls,
        state: QueueState,
        shared: Shared,
        *,
        topic: str,
        source: SourceSide,
        target: Connection,
        suspicious: bool,
        on_shift: Callable[[int, int], None],
    ) -> DataPath:
        """Connects to the source; nothing is pulled or sent yet.

        Args:
            topic: the topic's name at the target.
            target: the connection over which the target was checked.
            suspicious, on_shift: as of `SinkTask`.

        Raises:
            SourceLost, ClientError: the source cannot be read now.
        """
        assert state.progress.position is not None  # noqa: S101 - the check of the source has set it
        options = shared.options
        writer = shared.target.writer(state.target.broker)
        packer = Packer(
            Stamp(options.identity.source, *state.source),
            topic=topic,
            limit=min(options.batch_bytes, shared.message_limit(state.target.broker)),
            max_messages=1 if is_group_topic(topic) else options.batch_messages,
            exact_born=options.born_timestamp == "exact",
        )
        transforming = None
        if (outgoing := options.outgoing) is not None:
            transforming = Transforming(outgoing, state.topic, state.source, ahead=options.batch_messages)
        channel = Channel(shared.budget, packer if transforming is None else None)
        source_task = await source.open(channel, state.progress.position)
        sink = SinkTask(
            writer,
            target,
            channel,
            Batcher(channel, packer, transformed=transforming is not None),
            topic=topic,
            state=state,
            options=options,
            limiter=shared.limiter,
            dead_letters=shared.dead_letters,
            on_taken=source_task.pump,
            on_shift=on_shift,
            suspicious=suspicious,
            may_send=shared.may_send,
            transforming=transforming,
        )
        return cls(source_task, channel, sink)

    async def run(self) -> None:
        """Copies; raises what ended it."""
        self.source.start()
        await self.sink.run()

    def end(self, why: Exception) -> None:
        """No more pulls; `run` raises `why` once all that was pulled is sent."""
        self.source.stop()
        self._channel.fail(why)

    def close(self) -> None:
        """Drops what was pulled and not sent."""
        self.source.stop()
        self._channel.drop()
