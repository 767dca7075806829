"""Dead letters as they stand at the target, and what became of those that somebody has sent again.

The queue of the dead letters is its own log: beside letters it has steps, messages that say of an earlier letter
that a resend has begun, is done, or has ended with nothing sent. The broker puts them into one order, the same for
all workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Literal, NamedTuple

from replicator.client.brokers import max_offset, min_offset
from replicator.client.endpoint import Endpoint
from replicator.client.queue_range import read_range
from replicator.client.topics import is_missing
from replicator.errors import BrokerRefused
from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing import provenance
from replicator.routing.provenance import Provenance
from replicator.settings import RouteSettings
from replicator.worker.worker import Worker

__all__ = [
    "DEAD_LETTER_QUEUE",
    "STEP",
    "Kind",
    "Latest",
    "Letter",
    "Step",
    "dead_letters",
    "is_of",
    "last_steps",
    "letter_of",
    "pending",
    "step_of",
]

#: The queue of the dead-letter topic that all letters of a broker are in.
DEAD_LETTER_QUEUE: Final = 0
#: On a step: its kind, then the offset of its letter; then of `begun` the end of the target queue, of `done` the
#: offset there, of `not-sent` the offset of the step that had begun it.
STEP: Final = "__RPL_RESEND"
#: Letters of a route that are shown of a broker.
_SHOWN: Final = 100
#: Messages of the end of a queue that are read to find them, at most: beside letters there are those of other
#: routes, and two steps or more for each that was sent again.
_READ: Final = 10_000
#: Bytes of these, at most: a letter may have a body of megabytes.
_BYTES: Final = 64 * 1024 * 1024
#: Messages that are read at a time, from the end backwards, and pulls under way meanwhile.
_CHUNK: Final = 128
_AT_ONCE: Final = 4

Kind = Literal["begun", "done", "not-sent"]


class Letter(NamedTuple):
    """A message that the target or a transform refused; `offset` is in the queue of the dead letters of `broker`.

    `omitted` names what of it did not fit; `stored` is in milliseconds since the epoch.
    """

    broker: str
    offset: int
    topic: str
    reason: str
    size: int
    omitted: str
    source: Provenance
    stored: int


class Step(NamedTuple):
    """What has become of the letter at `letter`; `number` depends on `kind`, `stored` is in milliseconds."""

    offset: int
    kind: Kind
    letter: int
    number: int
    stored: int


class Latest(NamedTuple):
    """Letters, the newest first, each with its last step; `older`: there may be some before them."""

    letters: list[tuple[Letter, Step | None]]
    older: bool


def step_of(message: StoredMessage) -> Step | None:
    """The step that a message of that queue is; None if it is none."""
    found = properties.find(message.properties, STEP.encode())
    kind, _, numbers = (found or b"").decode("ascii", "replace").partition(" ")
    letter, number = map(properties.number, numbers.partition(" ")[::2])
    if kind not in ("begun", "done", "not-sent") or letter is None or number is None:
        return None
    return Step(message.queue_offset, kind, letter, number, message.store_timestamp)  # type: ignore[arg-type]


def letter_of(broker: str, message: StoredMessage) -> Letter | None:
    """The letter that a message of that queue is; None if it is none."""
    found, source = properties.decode(message.properties), provenance.read(message.properties)
    topic, size = found.get("__RPL_TOPIC", ""), properties.number(found.get("__RPL_SIZE", ""))
    if source is None or not topic or size is None:
        return None
    reason, omitted = found.get("__RPL_REASON", ""), found.get("__RPL_OMITTED", "")
    stored = message.store_timestamp
    return Letter(broker, message.queue_offset, topic, reason, size, omitted, source, stored)


async def dead_letters(worker: Worker, name: str, settings: RouteSettings) -> Latest:
    """The latest dead letters of a route at all brokers of the target: of each a hundred, as far as these are
    among the last ten thousand messages, or 64 MiB, of its topic.

    Raises:
        ClientError: a broker does not answer.
    """
    maps = worker.store.queue_maps(name).values()
    found: list[tuple[Letter, Step | None]] = []
    older = False
    for broker in sorted({target.broker for each in maps for target in each.values()}):
        reader = worker.context.target.cluster.reader(broker)
        latest = await _latest(reader, settings.dead_letter_topic, broker, partial(is_of, worker, name))
        found += latest.letters
        older = older or latest.older
    return Latest(sorted(found, key=lambda each: each[0].stored, reverse=True), older)


def is_of(worker: Worker, name: str, letter: Letter) -> bool:
    """Whether the route of this name may have written it: other routes may write to the same topic."""
    return letter.source.cluster == worker.identity.source and bool(worker.store.mapped(name, letter.topic))


async def _latest(reader: Endpoint, topic: str, broker: str, is_ours: Callable[[Letter], bool]) -> Latest:
    """The letters at the end of a queue, as they stand there; nothing where there is no such topic.

    A letter's steps come after it: whoever has read back to it has read them.
    """
    letters: list[Letter] = []
    steps: list[Step] = []
    try:
        begin = end = await max_offset(reader, topic, DEAD_LETTER_QUEUE)
        oldest = await min_offset(reader, topic, DEAD_LETTER_QUEUE)
    except BrokerRefused as error:
        if not is_missing(error):
            raise
        return Latest([], older=False)
    size = 0
    while begin > oldest and len(letters) < _SHOWN and end - begin < _READ and size < _BYTES:
        begin, stop = max(oldest, begin - _CHUNK), begin
        earlier_letters: list[Letter] = []  # their bodies are not kept
        earlier_steps: list[Step] = []
        async for message in read_range(reader, topic, DEAD_LETTER_QUEUE, begin, stop, at_once=_AT_ONCE):
            size += len(message.body) + len(message.properties)
            if (step := step_of(message)) is not None:
                earlier_steps.append(step)
            elif (letter := letter_of(broker, message)) is not None and is_ours(letter):
                earlier_letters.append(letter)
        letters, steps = earlier_letters + letters, earlier_steps + steps
    last = last_steps(steps)
    shown = [(letter, last.get(letter.offset)) for letter in letters[-_SHOWN:]]
    return Latest(shown, older=begin > oldest or len(letters) > _SHOWN)


def pending(steps: Iterable[Step]) -> list[Step]:
    """The attempts of which nobody has said how they ended."""
    steps = list(steps)
    ended = {step.number for step in steps if step.kind == "not-sent"}
    return [step for step in steps if step.kind == "begun" and step.offset not in ended]


def last_steps(steps: Iterable[Step]) -> dict[int, Step]:
    """By the offset of the letter: `done` if it is, else an attempt that may have sent it, else its last step."""
    steps = list(steps)
    found = {step.letter: step for step in steps}
    for each in (pending(steps), [step for step in steps if step.kind == "done"]):
        found |= {step.letter: step for step in each}
    return found
