"""The options of the data source `rocketmq`, modelled on Spark's own Kafka source."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from replicator.errors import ConfigError
from replicator.ranges.access import Access
from replicator.routing.selector import TopicSelector
from replicator.settings import ClusterSettings

__all__ = ["EARLIEST", "LATEST", "Bound", "ReadOptions", "WriteOptions"]

#: Values for the ends of a queue in offsets given as JSON, as in Spark's Kafka source.
LATEST: Final = -1
EARLIEST: Final = -2

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
)
_READ: Final = (
    "topic",
    "topicsPattern",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "minPartitions",
    "failOnDataLoss",
    "provenance",
    "clusterId",
)
#: A stream has no end, and a measure for its micro-batches.
_STREAM: Final = (*(name for name in _READ if not name.startswith("ending")), "maxOffsetsPerTrigger")
_WRITE: Final = ("topic",)
#: Options of a streaming write that are for Spark itself.
_SPARKS: Final = frozenset({"checkpointlocation", "queryname"})
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_ALIASES: Final = {
    "namesrv": "nameServer",
    "topics": "topic",
    "subscribe": "topic",
    "subscribePattern": "topicsPattern",
}

#: One end of a read: EARLIEST, LATEST, a time in ms since the epoch, or offsets by topic, broker and queue.
Offsets = Mapping[str, Mapping[str, Mapping[int, int]]]


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a read: `default` is EARLIEST or LATEST, and applies if nothing else is given."""

    default: int
    timestamp: int | None = None
    offsets: Offsets | None = None


class _Given:
    """Options by name, regardless of case."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        names = {name.lower(): name for name in known} | {
            alias.lower(): name for alias, name in _ALIASES.items() if name in known
        }
        self._values: dict[str, str] = {}
        for option, value in options.items():
            name = names.get(option.lower())
            if name is None:
                close = difflib.get_close_matches(option, known, n=1, cutoff=0.5)
                way_out = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                raise ConfigError(f"{option} is not an option of the data source rocketmq", hint=way_out)
            if name in self._values:
                raise ConfigError(f"{option} = {value!r}: {name} is given twice", hint="keep one")
            self._values[name] = value

    def __getitem__(self, name: str) -> str | None:
        return self._values.get(name)

    def whole(self, name: str, least: int) -> int | None:
        value = self[name]
        if value is None:
            return None
        if not value.strip().isdecimal() or int(value) < least:
            raise ConfigError(f"{name} = {value!r}", hint=f"give a whole number, {least} or more")
        return int(value)

    def yes(self, name: str, *, default: bool) -> bool:
        value = self[name]
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name} = {value!r}", hint="give true or false")
        return value.lower() == "true"

    def access(self) -> Access:
        if self["nameServer"] is None:
            raise ConfigError("nameServer is missing", hint="give the name servers, host:port, separated by commas")
        tls = {
            name: value
            for name, option in (
                ("mode", "tls"),
                ("ca_file", "tlsCaFile"),
                ("cert_file", "tlsCertFile"),
                ("key_file", "tlsKeyFile"),
            )
            if (value := self[option]) is not None
        }
        try:
            settings = ClusterSettings(
                namesrv=self["nameServer"],
                cluster=self["cluster"],
                access_key=self["accessKey"],
                secret_key=self["secretKey"],
                secret_key_file=None if self["secretKeyFile"] is None else Path(str(self["secretKeyFile"])),
                tls=tls,
            )
        except ValidationError as error:
            problem = error.errors()[0]
            message = problem["msg"].removeprefix("Value error, ")
            raise ConfigError(f"options of the cluster: {'.'.join(map(str, problem['loc']))}: {message}") from None
        return Access.of(settings)

    def bound(self, offsets: str, timestamp: str, default: int) -> Bound:
        """One end of a read.

        Args:
            default: applies if nothing is given, and to queues that are not named.
        """
        given, moment = self[offsets], self.whole(timestamp, 0)
        if given is not None and moment is not None:
            raise ConfigError(f"{offsets} and {timestamp} are both given", hint="keep one")
        if given is None:
            return Bound(default, timestamp=moment)
        end = _WORDS.get(given.strip().lower())
        return Bound(default, offsets=_offsets(offsets, given)) if end is None else Bound(end)


def _offsets(option: str, given: str) -> Offsets:
    """Offsets as JSON, in RocketMQ's form: queue ids are per broker."""
    try:
        parsed: Any = json.loads(given)
        return {
            str(topic): {
                str(broker): {int(queue): _offset(offset) for queue, offset in queues.items()}
                for broker, queues in brokers.items()
            }
            for topic, brokers in parsed.items()
        }
    except (ValueError, TypeError, AttributeError):
        raise ConfigError(
            f"{option} = {given!r}",
            hint='give earliest, latest, or JSON like {"orders":{"broker-a":{"0":17}}}; -2 is earliest, -1 latest',
        ) from None


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ValueError(value)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read.

    Topics that are `named` are read, or those that `selector` selects; `cluster_id` is the cluster's id in
    provenance, None for its name. `max_offsets` is the maximum of a micro-batch.
    """

    access: Access
    named: tuple[str, ...]
    selector: TopicSelector
    start: Bound
    end: Bound
    min_partitions: int
    fail_on_data_loss: bool
    provenance: bool
    cluster_id: str | None
    max_offsets: int | None

    @classmethod
    def of(cls, options: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
        """Parses the options that Spark passes.

        Raises:
            ConfigError: names the option and its value, with a hint.
        """
        given = _Given(options, _CLUSTER + (_STREAM if streaming else _READ))
        topics, pattern = given["topic"], given["topicsPattern"]
        if (topics is None) == (pattern is None):
            raise ConfigError("either topic or topicsPattern must be given", hint="give one of them")
        named = tuple(name.strip() for name in (topics or "").split(",") if name.strip())
        if topics is not None and not named:
            raise ConfigError(f"topic = {topics!r}", hint="give names separated by commas")
        try:
            patterns = () if pattern is None else (re.compile(pattern),)
        except re.error as error:
            raise ConfigError(f"topicsPattern = {pattern!r} ({error})", hint="give a regular expression") from None
        provenance, least = given.yes("provenance", default=False), given.whole("minPartitions", 1)
        if provenance and least is not None:
            raise ConfigError(
                f"provenance = true with minPartitions = {least}: parts of a queue would not be copied in order",
                hint="remove minPartitions",
            )
        if given["clusterId"] is not None and not provenance:
            raise ConfigError("clusterId has no effect without provenance = true", hint="give both or neither")
        return cls(
            access=given.access(),
            named=named,
            selector=TopicSelector(patterns),
            start=_start(given, streaming=streaming),
            end=_end(given),
            min_partitions=least or 1,
            fail_on_data_loss=given.yes("failOnDataLoss", default=True),
            provenance=provenance,
            cluster_id=given["clusterId"],
            max_offsets=given.whole("maxOffsetsPerTrigger", 1),
        )

    def selects(self, topic: str, system: Collection[str]) -> bool:
        """Whether `topic` is read: system topics only if they are named.

        Args:
            system: further topic names that brokers use themselves: those of clusters and brokers.
        """
        return topic in self.named or self.selector.selects(topic, system=system)


def _start(given: _Given, *, streaming: bool) -> Bound:
    if streaming:
        unset = given["startingOffsets"] is None and given["startingTimestamp"] is None
        return Bound(LATEST) if unset else given.bound("startingOffsets", "startingTimestamp", EARLIEST)
    return _not(LATEST, "startingOffsets", given.bound("startingOffsets", "startingTimestamp", EARLIEST))


def _end(given: _Given) -> Bound:
    return _not(EARLIEST, "endingOffsets", given.bound("endingOffsets", "endingTimestamp", LATEST))


def _not(refused: int, option: str, bound: Bound) -> Bound:
    if bound.default == refused:
        word = next(word for word, end in _WORDS.items() if end == refused)
        raise ConfigError(f"{option} = {word!r}: nothing would be read", hint="leave it out, or give JSON")
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
        given = _Given(own, _CLUSTER + _WRITE)
        return cls(access=given.access(), topic=given["topic"])
