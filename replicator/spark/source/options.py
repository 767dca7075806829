"""The options of the data source `rocketmq`, modelled on Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from replicator.client.topics import TopicConfig
from replicator.errors import ConfigError
from replicator.ranges.access import Access
from replicator.routing.message_queue import MessageQueue
from replicator.routing.selector import TopicSelector, compile_patterns
from replicator.spark.source import schema
from replicator.spark.source.given_options import EARLIEST, LATEST, Bound, GivenOptions

__all__ = ["ReadOptions", "WriteOptions"]

_CLUSTER: Final = (
    "nameServer",
    "cluster",
    "accessKey",
    "secretKey",
    "secretKeyFile",
    "tls",
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "brokerHosts",
    "addressMap",
    "socksAddress",
    "socksUsername",
    "socksPassword",
    "socksPasswordFile",
)
_WHAT: Final = ("topic", "topicsPattern", "assign")
_READ: Final = (
    *_WHAT,
    "columns",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "minPartitions",
    "failOnDataLoss",
    "provenance",
    "clusterId",
)
#: A stream has no end, and measures for its micro-batches.
_STREAM: Final = (
    *(name for name in _READ if not name.startswith("ending")),
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
)
_WRITE: Final = ("topic",)
#: Options of a streaming write that are for Spark itself.
_SPARKS: Final = frozenset({"checkpointlocation", "queryname"})
#: Seconds after which a micro-batch may be smaller than its minimum, as in Spark's Kafka source.
_DELAY: Final = 15 * 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read.

    Topics that are `named` are read, or those that `selector` selects; if queues are `assigned`, only these of the
    named topics. `columns` are those of the rows. `cluster_id` is the cluster's id in provenance, None: its name.
    `max_offsets` and `min_offsets` are the limits of a micro-batch; after `max_delay` seconds it may have fewer.
    """

    access: Access
    named: tuple[str, ...]
    assigned: Mapping[str, Mapping[str, frozenset[int]]] | None
    selector: TopicSelector
    columns: tuple[str, ...]
    start: Bound
    end: Bound
    min_partitions: int
    fail_on_data_loss: bool
    provenance: bool
    cluster_id: str | None
    max_offsets: int | None
    min_offsets: int
    max_delay: float

    @classmethod
    def of(cls, options: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
        """Parses the options that Spark passes.

        Raises:
            ConfigError: names the option and its value, with a hint.
        """
        given = GivenOptions(options, _CLUSTER + (_STREAM if streaming else _READ))
        what = given.one_of(*_WHAT)
        if what is None:
            raise ConfigError("nothing says what is read", hint=f"give one of {', '.join(_WHAT)}")
        topics, pattern, assigned = given["topic"], given["topicsPattern"], given.queues("assign")
        named = tuple(assigned or (name.strip() for name in (topics or "").split(",") if name.strip()))
        if topics is not None and not named:
            raise ConfigError(f"topic = {topics!r}", hint="give names separated by commas")
        patterns = compile_patterns("topicsPattern", () if pattern is None else (pattern,))
        provenance, least = given.yes("provenance", default=False), given.whole("minPartitions", 1)
        if provenance and least is not None:
            raise ConfigError(
                f"provenance = true with minPartitions = {least}: parts of a queue would not be copied in order",
                hint="remove minPartitions",
            )
        if given["clusterId"] is not None and not provenance:
            raise ConfigError("clusterId has no effect without provenance = true", hint="give both or neither")
        fewest, most = _limits(given)
        delay = given.seconds("maxTriggerDelay")
        return cls(
            access=given.access(),
            named=named,
            assigned=assigned,
            selector=TopicSelector(patterns),
            columns=schema.of_option(given["columns"]),
            start=_start(given, streaming=streaming),
            end=_end(given),
            min_partitions=least or 1,
            fail_on_data_loss=given.yes("failOnDataLoss", default=True),
            provenance=provenance,
            cluster_id=given["clusterId"],
            max_offsets=most,
            min_offsets=fewest or 0,
            max_delay=_DELAY if delay is None else delay,
        )

    def queues(self, topic: TopicConfig, broker: str, system: Collection[str]) -> list[MessageQueue]:
        """The queues of a topic at one broker that are read; those of system topics only if they are named.

        Args:
            system: further topic names that brokers use themselves: those of clusters and brokers.
        """
        if topic.name not in self.named and not self.selector.selects(topic.name, system=system):
            return []
        wanted = range(topic.queues) if self.assigned is None else self.assigned[topic.name].get(broker, ())
        return [MessageQueue(topic.name, broker, i) for i in range(topic.queues) if i in wanted]


def _limits(given: GivenOptions) -> tuple[int | None, int | None]:
    """The fewest and the most offsets of a micro-batch."""
    fewest, most = given.whole("minOffsetsPerTrigger", 1), given.whole("maxOffsetsPerTrigger", 1)
    if fewest is not None and most is not None and fewest > most:
        raise ConfigError(
            f"minOffsetsPerTrigger = {fewest} with maxOffsetsPerTrigger = {most}", hint="give no more than that"
        )
    if fewest is None and given["maxTriggerDelay"] is not None:
        raise ConfigError("maxTriggerDelay has no effect without minOffsetsPerTrigger", hint="give both or neither")
    return fewest, most


def _start(given: GivenOptions, *, streaming: bool) -> Bound:
    if streaming:
        options = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
        return Bound(LATEST) if given.one_of(*options) is None else given.bound("starting", EARLIEST)
    return _not(LATEST, "startingOffsets", given.bound("starting", EARLIEST))


def _end(given: GivenOptions) -> Bound:
    return _not(EARLIEST, "endingOffsets", given.bound("ending", LATEST))


def _not(refused: int, option: str, bound: Bound) -> Bound:
    word = "latest" if refused == LATEST else "earliest"
    if bound.default == refused:
        raise ConfigError(f"{option} = {word!r}: nothing would be read", hint="leave it out, or give JSON")
    for topic, brokers in (bound.offsets or {}).items():
        for broker, offsets in brokers.items():
            for queue_id, offset in offsets.items():
                if offset == refused:
                    queue = MessageQueue(topic, broker, queue_id)
                    raise ConfigError(
                        f"{option} has {refused}, {word}, for {queue}: nothing of it would be read",
                        hint="give another offset, or leave it out",
                    )
    return bound


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a write; `topic` wins over the column."""

    access: Access
    topic: str | None

    @classmethod
    def of(cls, options: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
        """Like `ReadOptions.of`."""
        own = {name: value for name, value in options.items() if not streaming or name.lower() not in _SPARKS}
        given = GivenOptions(own, _CLUSTER + _WRITE)
        return cls(access=given.access(), topic=given["topic"])
