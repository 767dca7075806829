"""The results as a page of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bench.bulk import BULK_QUEUES, Bulk
from bench.contender import QUEUES, Fill, Forward, Relay, Replicator, Scraped
from bench.cores import LAYOUTS, Cores
from bench.cores import QUEUES as NULL_QUEUES
from bench.cores import SIZE as SIZE_OF_NULL
from bench.figures import Spread
from bench.group import TOPIC_QUEUES, WORKERS, Group
from bench.idle import Idle
from bench.latency import RATE, Latency
from bench.machine import Machine
from bench.relaying import Round
from bench.stage import SCENARIOS, VERSION
from bench.starts import Start
from bench.thin import SIZE, Thin

R = TypeVar("R")
K = TypeVar("K")

_ABOUT = {
    Replicator.name: "this project, `replicator`, started as users start it, stopped with SIGTERM at the end",
    Scraped.name: "the same, with its metrics scraped every second instead of once",
    Relay.name: "a plain relay with the official Java client: a thread per queue pulls 32 messages and sends"
    " them as one batch to the same queue ([source](../bench/java/Relay.java)); it keeps no progress",
    Fill.name: "batches of 64 sent to the target by the Java client, without a source: the most that the target"
    " accepts on this machine",
}


@dataclass(slots=True, kw_only=True)
class Results:
    """All measurements taken."""

    machine: Machine
    command: str
    rounds: list[Round] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    thin: list[Thin] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)
    group: list[Group] = field(default_factory=list)
    cores: list[Cores] = field(default_factory=list)
    bulk: list[Bulk] = field(default_factory=list)
    loads: dict[str, float] = field(default_factory=dict)


def render(results: Results) -> str:
    """The page."""
    parts = [_head(results)]
    if results.rounds:
        parts += ["## Throughput", _contenders(results.rounds), _ways()]
        for name, scenario in SCENARIOS.items():
            sizes = sorted({r.size for r in results.rounds if r.scenario == name}, reverse=True)
            for size in sizes:
                several = [r for r in results.rounds if (r.scenario, r.size) == (name, size)]
                parts += [f"### {scenario.title}, {size:,} B a message", _throughput(several)]
    sections: tuple[tuple[str, Sequence[Any], Callable[[Any], str]], ...] = (
        ("Live latency", results.latencies, _latency),
        ("Thin traffic", results.thin, _thin),
        ("Starts", results.starts, _starts),
        ("Idle queues", results.idle, _idle),
        ("A group at size", results.group, _group),
        ("More than one core", results.cores, _cores),
    )
    for title, measured, shown in sections:
        parts += [f"## {title}", shown(measured)] if measured else []
    if results.bulk:
        parts += ["## With Spark", _about_bulk(results.bulk)]
        for title, history in (("In memory", False), ("History on disk", True)):
            bulk = [each for each in results.bulk if each.history is history]
            parts += [f"### {title}", _bulk(bulk)] if bulk else []
    return "\n\n".join(parts) + "\n"


def _head(results: Results) -> str:
    machine = results.machine
    loads = ", ".join(f"{name} {load:.2f}" for name, load in results.loads.items())
    shared = "shared by all: both clusters, the contender and the observer"
    facts = {
        "Date": machine.date,
        "Machine": f"{machine.cpu}, {machine.cores} cores, {machine.memory / (1 << 30):.0f} GiB, {shared}",
        "Linux": machine.kernel,
        "Python": machine.python,
        "RocketMQ": f"{VERSION} on both sides",
        "Replicator": machine.replicator,
        "Load average before each part": loads or f"{machine.load:.2f}",
        "Made by": f"`{results.command}`",
    }
    return "# Benchmarks\n\n" + "\n".join(f"- **{name}**: {text}" for name, text in facts.items())


def _contenders(rounds: Iterable[Round]) -> str:
    present = {r.contender for r in rounds}
    return "\n".join(f"- **{name}**: {about}" for name, about in _ABOUT.items() if name in present)


def _ways() -> str:
    return (
        f"Contenders take turns, each with a new topic of {QUEUES} queues; before the count starts, each"
        " copies a fifth of the messages, since brokers that have just started are slower. The rate counts"
        " from the start of the process to the moment at which the target stored the last message (its own"
        " timestamp); *moving* leaves out what comes before the first stored message, such as the start of a"
        " JVM. CPU is user and system time of the whole process, start included. Every cell is the median,"
        " with the smallest and largest of all rounds. A round trip of 50 ms is simulated by a proxy that"
        " holds bytes back in the kernel for 25 ms each way and does not limit bandwidth; it takes a tenth of"
        " a core. Before each turn some GiB of memory are touched, which a virtual machine may get from its"
        " host only then."
    )


def _throughput(rounds: Sequence[Round]) -> str:
    names = [name for name in _ABOUT if any(r.contender == name for r in rounds)]
    by_name = {name: [r for r in rounds if r.contender == name] for name in names}
    whole = {name: Spread.of([_rate(r) for r in several]).median for name, several in by_name.items()}
    # The ceiling is that of the broker, so the start of the contender's JVM does not count.
    moving = {name: Spread.of([_moving(r) for r in several]).median for name, several in by_name.items()}
    rows = []
    for name, several in by_name.items():
        rows.append([
            name,
            str(len(several)),
            _spread(several, _rate, "{:,.0f}"),
            _spread(several, _moving, "{:,.0f}"),
            _spread(several, lambda r: r.messages * r.size / r.seconds / 1e6, "{:,.1f}"),
            _spread(several, lambda r: r.seconds, "{:.2f}"),
            _spread(several, lambda r: r.cost.cpu, "{:.2f}"),
            _spread(several, lambda r: r.cost.cpu / r.messages * 1e6, "{:.1f}"),
            _spread(several, lambda r: r.cost.peak_rss / 1e6, "{:,.0f}"),
            _times(whole, name, Relay.name),
            _times(moving, name, Fill.name),
        ])  # fmt: skip
    titles = ["contender", "rounds", "messages/s", "moving, messages/s", "MB/s", "seconds", "CPU s"]
    titles += ["CPU µs/message", "peak memory MB", "of the relay", "moving, of the ceiling"]
    return f"{rounds[0].messages:,} messages a round.\n\n" + _table(titles, rows)


def _latency(latencies: Iterable[Latency]) -> str:
    rows = [
        [
            found.contender,
            f"{found.messages:,}",
            f"{found.p50:.0f}",
            f"{found.p99:.0f}",
            f"{found.highest:.0f}",
            f"{found.cpu_share:.1%}",
        ]
        for found in latencies
    ]
    intro = (
        f"{RATE} messages/s of 1 KiB over {QUEUES} queues, both clusters near. From the source's store"
        " timestamp to the target's (same clock, whole milliseconds)."
    )
    return f"{intro}\n\n" + _table(["contender", "messages", "p50 ms", "p99 ms", "max ms", "CPU of a core"], rows)


def _thin(found: Sequence[Thin]) -> str:
    rows = []
    for key, several in _by(found, lambda t: (t.queues, t.rate, t.contender)).items():
        rows.append([
            f"{key[0]:,}",
            f"{key[1]:,}",
            key[2],
            _spread(several, lambda t: t.cpu, "{:,.0f}"),
            _spread(several, lambda t: t.p50, "{:,.0f}"),
            _spread(several, lambda t: t.p99, "{:,.0f}"),
            _spread(several, lambda t: t.rss / 1e6, "{:,.0f}"),
        ])  # fmt: skip
    intro = (
        f"Messages of {SIZE} B, each to a random queue of one topic, so that most answers to pulls hold one. They"
        " come by one-way requests of a producer that costs next to nothing, and count once the contender has been"
        " warm for some seconds. Latency is from the source's store timestamp to the target's (same clock, whole"
        f" milliseconds). **{Forward.name}** is a push consumer whose listener sends what it gets"
        " ([source](../bench/java/Forward.java)); it does not keep the order. **floor** is this project's client"
        " without a route: a pull and a send each ([source](../bench/floor.py))."
    )
    titles = ["queues", "messages/s", "contender", "CPU µs/message", "p50 ms", "p99 ms", "memory MB"]
    return f"{intro}\n\n" + _table(titles, rows)


def _idle(found: Iterable[Idle]) -> str:
    rows = [
        [
            f"{i.queues:,}",
            f"{i.cpu_share:.1%}",
            f"{i.rss / 1e6:,.0f}",
            f"{i.scrape.seconds:.2f}",
            f"{i.scrape.size / 1e6:.1f}",
            f"{1000 * i.scrape_cpu_seconds:.1f}",
        ]
        for i in found
    ]
    intro = f"One replicator waits on idle topics of {QUEUES} queues each."
    intro += " Of twenty scrapes of its metrics the time of the slowest, and the CPU time of one."
    return f"{intro}\n\n" + _table(
        ["queues", "CPU of a core", "memory MB", "scrape s", "scrape MB", "scrape CPU ms"], rows
    )


def _starts(found: Iterable[Start]) -> str:
    rows = [
        [name, str(len(several)), _spread(several, lambda s: s.seconds, "{:.2f}")]
        for name, several in _by(found, lambda s: s.name).items()
    ]
    intro = (
        "From the start of the process to the moment at which the target stored the message (its own timestamp); of"
        " `--help` to the end of the process. Each route is new: its target topics are made, too."
    )
    return f"{intro}\n\n" + _table(["what", "rounds", "seconds"], rows)


def _group(found: Sequence[Group]) -> str:
    rows = []
    for queues, several in _by(found, lambda g: g.queues).items():
        rows.append([
            f"{queues:,}",
            _spread(several, lambda g: g.start, "{:.1f}"),
            _spread(several, lambda g: g.takeover, "{:.1f}"),
            _spread(several, lambda g: g.rebalance, "{:.1f}"),
            _spread(several, lambda g: g.cpu_share, "{:.1%}"),
            _spread(several, lambda g: g.rss / 1e6, "{:,.0f}"),
            _spread(several, lambda g: g.scrape_seconds, "{:.2f}"),
            _spread(several, lambda g: g.control_rate * 3600 / 1e6, "{:,.0f}"),
        ])  # fmt: skip
    intro = (
        f"{WORKERS} workers of one group copy topics of {TOPIC_QUEUES} queues. A start is that of all of them at"
        " once; for a takeover one is killed, and for a rebalance it is started again. Each lasts until every"
        " worker copies, all queues are copied, and a message of each topic that was sent at its beginning has"
        " come. Then, while nothing comes: the worker that costs most, and what the group writes to the source's"
        " system topics."
    )
    titles = ["queues", "start s", "takeover s", "rebalance s", "CPU of a core", "memory MB", "scrape s"]
    return f"{intro}\n\n" + _table([*titles, "group's records MB/h"], rows)


def _bulk(found: Sequence[Bulk]) -> str:
    by_name = _by(found, lambda b: b.name)
    rates = {name: Spread.of([each.rate for each in several]).median for name, several in by_name.items()}
    rows = []
    for name, several in by_name.items():
        rows.append([
            name,
            str(len(several)),
            _spread(several, lambda b: b.rate, "{:,.0f}"),
            _spread(several, lambda b: b.rate * b.size / 1e6, "{:,.1f}"),
            _spread(several, lambda b: b.seconds, "{:.2f}"),
            _spread(several, lambda b: b.cpu / b.messages * 1e6, "{:.1f}"),
            _spread(several, lambda b: b.start, "{:.1f}"),
            _spread(several, lambda b: b.start_cpu, "{:.1f}"),
            _times(rates, name, Replicator.name),
        ])  # fmt: skip
    titles = ["what", "rounds", "messages/s", "MB/s", "seconds", "CPU s per million"]
    titles += ["start-up s", "start-up CPU s", "of the live path"]
    return _table(titles, rows)


def _cores(found: Sequence[Cores]) -> str:
    by_layout = {layout: [each for each in found if each.layout == layout] for layout in LAYOUTS}
    rates = {layout: Spread.of([each.rate for each in several]).median for layout, several in by_layout.items()}
    rows = []
    for layout, several in by_layout.items():
        rows.append([
            layout.name,
            str(layout.cores),
            str(len(several)),
            _spread(several, lambda c: c.rate, "{:,.0f}"),
            _spread(several, lambda c: c.cpu, "{:.2f}"),
            _spread(several, lambda c: c.brokers_cpu, "{:.2f}"),
            f"{rates[layout] / rates[LAYOUTS[0]]:.2f}",
        ])  # fmt: skip
    intro = (
        "`replicator --workers N`, or a worker whose engine is Spark, pinned to cores that it shares with the"
        " brokers, between **null brokers**,"
        " which store nothing: compiled code ([source](../bench/null_broker.c)) that answers pulls of messages of"
        f" {SIZE_OF_NULL:,} B from memory, counts what is sent, and passes all else to real brokers. {NULL_QUEUES}"
        " queues, each a task; no audit, since there is nothing to read back. The rate is that of the middle"
        " four fifths."
    )
    titles = [
        "what",
        "cores",
        "rounds",
        "messages/s",
        "CPU µs/message",
        "null brokers' CPU µs/message",
        "times one",
    ]
    return f"{intro}\n\n" + _table(titles, rows)


def _about_bulk(found: Sequence[Bulk]) -> str:
    return (
        f"{found[0].messages:,} messages of {found[0].size:,} B in {BULK_QUEUES} queues a round, both clusters"
        " near. Where they are history on disk, the source treats them so, and a pull brings 8 of them instead"
        " of 32; in fact they are in memory. Start-up counts"
        " only in the columns that name it: where messages are sent it ends when the target stores the first"
        " one. The time of `verify` and `export` is that of their tasks, divided by the number that run at a"
        " time; from their CPU the start-up CPU of the same round's backfill is subtracted, which is coarse."
        " CPU is that of the process and all its children, JVM and Python workers included, without the"
        " brokers'."
    )


def _by(found: Iterable[R], key: Callable[[R], K]) -> dict[K, list[R]]:
    """What was measured, by `key`, in the order in which keys come first."""
    groups: dict[K, list[R]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    return groups


def _rate(done: Round) -> float:
    return done.messages / done.seconds


def _moving(done: Round) -> float:
    # Timestamps are whole milliseconds: a tiny round may take none.
    return done.messages / max(done.moving, 0.001)


def _spread(rounds: Sequence[R], value: Callable[[R], float], form: str) -> str:
    spread = Spread.of([value(r) for r in rounds])
    middle = form.format(spread.median)
    return middle if len(rounds) == 1 else f"{middle} ({form.format(spread.low)} to {form.format(spread.high)})"


def _times(medians: dict[str, float], name: str, base: str) -> str:
    return f"{medians[name] / medians[base]:.2f}" if base in medians else ""


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---", *("---:" for _ in titles[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
