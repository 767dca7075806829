"""Options as Spark passes them: found by name regardless of case, and parsed; others are refused with a hint."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from replicator.errors import ConfigError
from replicator.protocol import properties
from replicator.ranges.access import Access
from replicator.routing.message_queue import MessageQueue
from replicator.settings import ClusterSettings
from replicator.settings.mistakes import way_out

__all__ = ["EARLIEST", "LATEST", "Bound", "GivenOptions"]

#: Values for the ends of a queue in offsets given as JSON, as in Spark's Kafka source.
LATEST: Final = -1
EARLIEST: Final = -2

_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_ALIASES: Final = {
    "namesrv": "nameServer",
    "topics": "topic",
    "subscribe": "topic",
    "subscribePattern": "topicsPattern",
}
_NO_GROUP: Final = "leave it out: a read has no consumer group, and a stream's offsets are in its checkpoint"
_ITSELF: Final = "leave it out: brokers that do not answer are asked again"
#: Options of Spark's Kafka source, and of other RocketMQ connectors, for which there is another way here.
_ELSEWHERE: Final = {
    "kafka.bootstrap.servers": "give nameServer, the name servers of a RocketMQ cluster",
    "kafka.group.id": _NO_GROUP,
    "groupIdPrefix": _NO_GROUP,
    "group": _NO_GROUP,
    "includeHeaders": "leave it out: the column properties has all of a message's properties",
    "startingOffsetsByTimestampStrategy": "leave it out: a queue without a message since then starts at its end",
    "maxRecordsPerPartition": "give minPartitions, by which queues are split",
    "kafkaConsumer.pollTimeoutMs": _ITSELF,
    "fetchOffset.numRetries": _ITSELF,
    "fetchOffset.retryIntervalMs": _ITSELF,
    "subExpression": "leave it out, and filter the rows: where(\"tags = 'paid'\")",
}
_KAFKAS: Final = "it is for Kafka's client; here are accessKey with secretKeyFile, and tls with tlsCaFile"
#: Options that are settings in a table of their own.
_TABLES: Final = {
    "tls": {"mode": "tls", "ca_file": "tlsCaFile", "cert_file": "tlsCertFile", "key_file": "tlsKeyFile"},
    "socks": {
        "address": "socksAddress",
        "username": "socksUsername",
        "password": "socksPassword",
        "password_file": "socksPasswordFile",
    },
}
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

#: A number for each queue, by topic, broker and queue number.
ByQueue = Mapping[str, Mapping[str, Mapping[int, int]]]


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a read: `default` is EARLIEST or LATEST, and applies to queues for which nothing else is given.

    `timestamp` is a time for all queues, `times` are those of some, in milliseconds since the epoch; `offsets` are
    those of some, which may be EARLIEST and LATEST too.
    """

    default: int
    timestamp: int | None = None
    offsets: ByQueue | None = None
    times: ByQueue | None = None

    @property
    def by_time(self) -> bool:
        return self.timestamp is not None or self.times is not None

    def time(self, queue: MessageQueue) -> int | None:
        """The time that is given for a queue."""
        return self.timestamp if self.times is None else _of(self.times, queue)

    def offset(self, queue: MessageQueue) -> int:
        """The offset that is given for a queue, or where it ends."""
        found = None if self.offsets is None else _of(self.offsets, queue)
        return self.default if found is None else found


def _of(numbers: ByQueue, queue: MessageQueue) -> int | None:
    return numbers.get(queue.topic, {}).get(queue.broker, {}).get(queue.queue_id)


class GivenOptions:
    """The options that Spark passes; those that are not `known` are refused.

    Raises:
        ConfigError: as all methods: names the option and its value, with a hint.
    """

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        names = {name.lower(): name for name in known} | {
            alias.lower(): name for alias, name in _ALIASES.items() if name in known
        }
        self._values: dict[str, str] = {}
        for option, value in options.items():
            name = names.get(option.lower())
            if name is None:
                raise _unknown(option, known)
            if name in self._values:
                raise ConfigError(f"{option} = {value!r}: {name} is given twice", hint="keep one")
            self._values[name] = value

    def __getitem__(self, name: str) -> str | None:
        return self._values.get(name)

    def one_of(self, *names: str) -> str | None:
        """The one of these options that is given; None if none is."""
        given = [name for name in names if name in self._values]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} are both given", hint="keep one")
        return given[0] if given else None

    def whole(self, name: str, least: int) -> int | None:
        value = self[name]
        if value is None:
            return None
        number = properties.number(value.strip(" "))
        if number is None or number < least:
            raise ConfigError(f"{name} = {value!r}", hint=f"give a whole number, {least} or more")
        return number

    def yes(self, name: str, *, default: bool) -> bool:
        value = self[name]
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name} = {value!r}", hint="give true or false")
        return value.lower() == "true"

    def seconds(self, name: str) -> float | None:
        """A time span as Spark writes it: `90s`, `15m`; a number alone is in milliseconds."""
        value = self[name]
        if value is None:
            return None
        found = re.fullmatch(r"\s*([0-9]{1,18})\s*([a-z]*)\s*", value.lower())
        unit = _UNITS.get(found[2] or "ms") if found else None
        if found is None or unit is None:
            raise ConfigError(f"{name} = {value!r}", hint=f"give a number and one of {', '.join(_UNITS)}, like 15m")
        return int(found[1]) * unit

    def access(self) -> Access:
        if self["nameServer"] is None:
            raise ConfigError("nameServer is missing", hint="give the name servers, host:port, separated by commas")
        tables = {
            table: {name: value for name, option in options.items() if (value := self[option]) is not None}
            for table, options in _TABLES.items()
        }
        try:
            settings = ClusterSettings(
                namesrv=self["nameServer"],
                cluster=self["cluster"],
                access_key=self["accessKey"],
                secret_key=self["secretKey"],
                secret_key_file=None if self["secretKeyFile"] is None else Path(str(self["secretKeyFile"])),
                **tables,
                broker_hosts=self["brokerHosts"] or [],
                address_map=self["addressMap"] or [],
            )
        except ValidationError as error:
            problem = error.errors()[0]
            named = ".".join(map(str, problem["loc"]))
            raise ConfigError(f"options of the cluster: {named}: {way_out(problem)}") from None
        return Access.of(settings)

    def bound(self, side: str, default: int) -> Bound:
        """One end of a read.

        Args:
            side: `starting` or `ending`, with which the options begin.
            default: applies if nothing is given, and to queues that are not named.
        """
        offsets, timestamp, times = f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp"
        given = self.one_of(offsets, timestamp, times)
        if given == timestamp:
            return Bound(default, timestamp=self.whole(timestamp, 0))
        if given == times:
            example = '{"orders":{"broker-a":{"0":1767225600000}}}, in ms since the epoch'
            return Bound(default, times=self._by_queue(times, 0, f"give JSON like {example}"))
        end = _WORDS.get((self[offsets] or "").strip().lower())
        if given is None or end is not None:
            return Bound(default if end is None else end)
        hint = 'give earliest, latest, or JSON like {"orders":{"broker-a":{"0":17}}}; -2 is earliest, -1 latest'
        return Bound(default, offsets=self._by_queue(offsets, EARLIEST, hint))

    def queues(self, name: str) -> Mapping[str, Mapping[str, frozenset[int]]] | None:
        """Queue numbers by topic and broker; None if the option is not given."""
        if self[name] is None:
            return None

        def numbers(given: Any) -> frozenset[int]:
            if not isinstance(given, list):
                raise TypeError
            return frozenset(_number(each, 0) for each in given)

        found = self._json(name, numbers, 'give JSON like {"orders":{"broker-a":[0,1]}}')
        if not any(queues for brokers in found.values() for queues in brokers.values()):
            raise ConfigError(f"{name} = {self[name]!r}: nothing would be read", hint="name a queue")
        return found

    def _by_queue(self, name: str, least: int, hint: str) -> ByQueue:
        def numbers(given: Any) -> dict[int, int]:
            return {int(queue): _number(value, least) for queue, value in given.items()}

        return self._json(name, numbers, hint)

    def _json(self, name: str, of_broker: Callable[[Any], Any], hint: str) -> dict[str, dict[str, Any]]:
        """JSON by topic and broker, in RocketMQ's form: queue numbers are per broker."""
        try:
            return {
                str(topic): {str(broker): of_broker(given) for broker, given in brokers.items()}
                for topic, brokers in json.loads(str(self[name])).items()
            }
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise ConfigError(f"{name} = {self[name]!r}", hint=hint) from None


def _number(value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(value)
    return value


def _unknown(option: str, known: tuple[str, ...]) -> ConfigError:
    """Spark gives names in lower case; those that are known from elsewhere are written as they are there."""
    for name, hint in _ELSEWHERE.items():
        if option.lower() == name.lower():
            return ConfigError(f"{name} is not an option of the data source rocketmq", hint=hint)
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(option.lower(), names, n=1, cutoff=0.5)
    hint = f"did you mean {names[close[0]]}?" if close else f"there are {', '.join(known)}"
    if option.lower().startswith("kafka."):
        hint = _KAFKAS
    return ConfigError(f"{option} is not an option of the data source rocketmq", hint=hint)
