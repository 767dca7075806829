"""`replicator sandbox topic|topics|produce|consume`: a first message, without any other client."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from replicator.client.topics import READABLE, WRITABLE
from replicator.command_app import completing
from replicator.command_output import Output, Shown, separator, show
from replicator.errors import ConfigError, ReplicatorError
from replicator.exit_codes import ExitCode
from replicator.observe.counted import counted
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.sandbox import traffic
from replicator.sandbox.reports import Consumed, Produced, TopicHeld, TopicMade
from replicator.sandbox.running import progress, run
from replicator.sandbox.state import State

__all__ = ["consume", "produce", "topic", "topics"]

_STARTS: Final = ("earliest", "latest")
_START: Final[Any] = {"metavar": "[earliest|latest|TIME]", "autocompletion": completing(_STARTS)}


def topic(
    name: Annotated[str, typer.Argument(help="The topic.")],
    cluster: Annotated[str, typer.Option(help="Where; default: the first cluster.")] = "",
    queues: Annotated[int, typer.Option(help="Queues on each broker.", min=1)] = 4,
    output: Shown = Output.TABLE,
) -> None:
    """Create a topic."""
    run(lambda: _topic(name, cluster, queues=queues, output=output))


def topics(
    cluster: Annotated[str, typer.Option(help="Where; default: all clusters.")] = "",
    output: Shown = Output.TABLE,
) -> None:
    """List the topics, without those of the system, how many messages each has, and who may use it."""
    run(lambda: _topics(cluster, output=output))


def produce(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    cluster: Annotated[str, typer.Option(help="Where; default: the first cluster.")] = "",
    count: Annotated[int, typer.Option(help="Messages.", min=1)] = 100,
    size: Annotated[int, typer.Option(help="Bytes of a body, at least.", min=0, max=2**20)] = 0,
    rate: Annotated[int, typer.Option(help="Messages each second; 0: as many as possible.", min=0)] = 0,
    keys: Annotated[str, typer.Option(help="Key of each message; {n} stands for its number.")] = "order-{n}",
    tag: Annotated[str, typer.Option(help="Tag of all messages.")] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Send even where the topic's perm keeps clients from it.")
    ] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Send messages to a topic, over all its queues in turn; numbers go on where the topic ends."""
    shape = traffic.Shape(size=size, keys=keys, tag=tag)
    run(lambda: _produce(topic, cluster, shape=shape, count=count, rate=rate, force=force, output=output))


def consume(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    cluster: Annotated[str, typer.Option(help="Where; default: the last cluster.")] = "",
    group: Annotated[
        str, typer.Option(help="Consumer group, which is created: begin where it is, and keep how far it has come.")
    ] = "",
    start: Annotated[str, typer.Option("--from", help="Where to begin.", **_START)] = "earliest",
    count: Annotated[int, typer.Option(help="End after so many messages; 0: at the end.", min=0)] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until Ctrl-C.")] = False,
    output: Shown = Output.TABLE,
) -> None:
    """Show the messages of a topic, queue by queue, and where each was copied from.

    Exit code 0, with --follow also after Ctrl-C.
    """

    async def reading() -> int:
        if follow and not count and output is Output.JSON:
            way_out = "leave out one of them, or give --count"
            raise ConfigError("--follow never ends, and JSON is printed at the end", hint=way_out)
        wanted = traffic.Wanted(start=traffic.start_of(start), group=group, count=count, follow=follow)
        return await _consume(topic, cluster, wanted, output=output)

    run(reading, interrupted=ExitCode.OK if follow else 128 + signal.SIGINT)


async def _topic(name: str, cluster: str, *, queues: int, output: Output) -> int:
    state = State()
    record = traffic.choose(state, cluster)
    async with traffic.opened(record, state) as client:
        made = await traffic.create(client, name, queues=queues)
    found = TopicMade(cluster=record.name, topic=name, queues=len(made))
    show(found, output, Text(f"{record.name} has topic {name} with {counted(len(made), 'queue')}."))
    return 0


async def _topics(cluster: str, *, output: Output) -> int:
    state, found, failures = State(), list[TopicHeld](), dict[str, ReplicatorError]()
    first = traffic.choose(state, cluster)
    for record in [first] if cluster else state.read().values():
        try:
            async with traffic.opened(record, state) as client:
                for name, queues, messages, perms in await traffic.held(client):
                    held = TopicHeld(cluster=record.name, topic=name, queues=queues, messages=messages, perms=perms)
                    found.append(held)
        except ReplicatorError as error:  # one that was killed hides nothing of the others
            failures[record.name] = error
    table = Table("cluster", "topic", "queues", "messages", "perm", box=None, pad_edge=False)
    for each in found:
        counts = str(each.queues), f"{each.messages:{separator()}}"
        table.add_row(each.cluster, each.topic, *counts, ", ".join(map(_perm, each.perms)))
    if found or not failures or output is Output.JSON:
        show(found, output, table if found else Text("There are no topics."))
    for name, failure in failures.items():
        print(f"{name}: {failure}", file=sys.stderr)
    return ExitCode.UNUSABLE if failures else ExitCode.OK


def _perm(perm: int) -> str:
    """A perm as brokers have it, and what it keeps clients from."""
    return f"{perm}{'' if perm & WRITABLE else ' read-only' if perm & READABLE else ' closed'}"


async def _produce(
    topic: str, cluster: str, *, shape: traffic.Shape, count: int, rate: int, force: bool, output: Output
) -> int:
    state, sent = State(), 0
    record = traffic.choose(state, cluster)
    async with traffic.opened(record, state) as client:
        queues = await traffic.writable(client, topic, force=force)
        first = await traffic.end_of(client, queues, topic)
        with progress(f"Sending to {topic} …") as say:
            async for sent in traffic.produce(client, topic, shape, queues, first=first, count=count, rate=rate):
                say(f"Sent {sent:,} of {count:,} to {topic} …")
    found = Produced(cluster=record.name, topic=topic, messages=sent, first=first)
    show(found, output, Text(f"Sent {counted(sent, 'message')} to {topic} at {record.name}."))
    return 0


async def _consume(topic: str, cluster: str, wanted: traffic.Wanted, *, output: Output) -> int:
    state, found = State(), list[Consumed]()
    record = traffic.choose(state, cluster, last=True)
    async with traffic.opened(record, state) as client:
        async for place, message in traffic.consume(client, topic, wanted):
            shown = _consumed(place, message)
            if output is Output.JSON:
                found.append(shown)
            else:
                whence = f" (copied from {shown.copied_from})" if shown.copied_from else ""
                print(f"{shown.broker}/{shown.queue} {shown.offset} {shown.keys} {shown.body}{whence}", flush=True)
    if output is Output.JSON:
        show(found, output, "")
    return 0


def _consumed(place: traffic.Place, message: StoredMessage) -> Consumed:
    named = properties.decode(message.properties)
    return Consumed(
        broker=place.broker,
        queue=place.queue_id,
        offset=message.queue_offset,
        keys=named.get("KEYS", ""),
        body=message.content.decode(errors="replace"),
        copied_from=named.get("__RPL_SOURCE"),
    )
