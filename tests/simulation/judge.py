"""What must hold in a simulated world: nothing is lost or done twice, and in the end all is copied."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator

from replicator.protocol import properties
from replicator.protocol.message import StoredMessage, parse_messages
from replicator.routing import provenance
from replicator.routing.state import Phase, QueueState
from tests.simulation.cluster import Node, SimCluster
from tests.simulation.world import TOPIC, SimWorld
from tests.support.history import Lane, Message, Place, check

__all__ = ["Judge", "Violation"]

#: Seconds between two looks.
_INTERVAL = 0.1
#: What copies have and originals have not, and what brokers make.
_RESERVED = frozenset({"__RPL_ORIGIN", "__RPL_SOURCE", "__RPL_SEAL", "CLUSTER", "MSG_REGION", "TRACE_ON"})


class Violation(AssertionError):
    """Something that must never be so."""


class Judge:
    """Watches `world` from outside: it reads the disks of brokers, and what workers believe.

    `late` says that a request may have been stored more than `settle_timeout` after its sender had given it up,
    which is when a message may come twice.
    """

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.late = False
        self.copies: defaultdict[Lane, defaultdict[int, list[Place]]] = defaultdict(lambda: defaultdict(list))
        self.originals: dict[Place, Message] = {}
        #: Copies that the target has lost, and originals that the source has deleted before they were copied.
        self.lost_at_target: defaultdict[Lane, set[int]] = defaultdict(set)
        self.deleted: defaultdict[Lane, set[int]] = defaultdict(set)
        self.gaps: defaultdict[Lane, int] = defaultdict(int)
        self._judged: defaultdict[Lane, int] = defaultdict(int)
        self._counted: defaultdict[Lane, int] = defaultdict(int)
        self._fencings: dict[str, int] = {}
        for cluster, learn in ((world.source, self._produced), (world.target, self._copied)):
            for node in cluster.nodes:
                node.broker.on_stored = lambda topic, queue, offset, count, node=node, learn=learn: (  # type: ignore[misc]
                    learn(node, queue, offset, count) if topic == TOPIC else None
                )
        world.kernel.plan(_INTERVAL, self._judge)

    # What happens on the disks.

    def _produced(self, node: Node, queue: int, offset: int, count: int) -> None:
        for message in _messages(node, queue, offset, count):
            self.originals[message.place] = message

    def _copied(self, node: Node, queue: int, offset: int, count: int) -> None:
        for message in _stored(node, queue, offset, count):
            place, origin = Place(node.name, queue, message.queue_offset), _origin(message)
            if origin is None:
                raise Violation(f"{place} at the target does not say where it comes from")
            self.copies[origin.lane][origin.offset].append(place)

    def target_goes_back(self, node: Node) -> None:
        """The disk of a target broker is an older one now."""
        for lane, copies in self.copies.items():
            for offset, places in copies.items():
                kept = [each for each in places if self._is_there(node, each)]
                if places and not kept:
                    self.lost_at_target[lane].add(offset)
                places[:] = kept

    @staticmethod
    def _is_there(node: Node, place: Place) -> bool:
        return place.broker != node.name or place.offset < node.broker.store.queue(TOPIC, place.queue).end

    def source_deletes(self, node: Node, queue: int, first: int) -> None:
        """Retention deletes what is before the offset `first`."""
        lane, stored = Lane(node.name, queue), node.broker.store.queue(TOPIC, queue)
        for offset in range(stored.first, first):
            if not self.copies[lane][offset]:
                self.deleted[lane].add(offset)
        stored.trim(first)

    def _is_nowhere(self, place: Place) -> bool:
        """Whether the source deleted it before it was copied, or after that, and then the target lost it."""
        first = self.world.source.node(place.broker).broker.store.queue(TOPIC, place.queue).first
        twice = place.offset < first and place.offset in self.lost_at_target[place.lane]
        return twice or place.offset in self.deleted[place.lane]

    # While it runs.

    def _judge(self) -> None:
        senders: defaultdict[str, list[str]] = defaultdict(list)
        kernel = self.world.kernel
        for sim in self.world.workers:
            if sim.up and sim.worker is not None and not sim.host.process.paused:
                kernel.current = sim.host.process
                for state in sim.worker.routes.states:
                    self._judge_position(state)
                    self._judge_offsets(state)
                if sim.worker.may_send():
                    for task in sim.worker.coordinator.running:
                        senders[task].append(sim.name)
            for loop in sim.loops:
                for failure in loop.failures:
                    raise Violation(f"{sim.name}: {failure.get('message')} {failure.get('exception')!r}")
        for task, names in senders.items():
            if len(names) > 1:
                raise Violation(f"{names} may send for {task} at once")
        kernel.current = None
        kernel.plan(_INTERVAL, self._judge)

    def _judge_position(self, state: QueueState) -> None:
        """No position is ahead of what the target has."""
        position, lane = state.progress.position, Lane(*state.source)
        if position is None:
            return
        # A worker whose disk was wiped before it could publish what it has counted counts from less on.
        self.gaps[lane] += max(0, state.counters.gaps - self._counted[lane])
        self._counted[lane] = state.counters.gaps
        copies, excused = self.copies[lane], self.lost_at_target[lane] | self.deleted[lane]
        for offset in range(self._judged[lane], position):
            if not copies.get(offset) and offset not in excused:
                raise Violation(f"the position {position} of {lane} is ahead of {offset}, which the target has not")
        self._judged[lane] = position

    def _judge_offsets(self, state: QueueState) -> None:
        """The offset map names the places where the copies really are."""
        last, lane = state.progress.offsets.last, Lane(*state.source)
        if last is None or last[0] in self.lost_at_target[lane]:
            return
        offsets = [each.offset for each in self.copies[lane].get(last[0], ())]
        if last[1] not in offsets:
            raise Violation(f"the offset map of {lane} has {last[0]} at {last[1]}, the target at {offsets}")

    # In the end.

    def settled(self) -> bool:
        """Whether all that the source still has is copied, and every queue is copied somewhere."""
        states = [
            state
            for sim in self.world.workers
            if sim.up and sim.worker is not None
            for state in sim.worker.routes.states
        ]
        lanes = {Lane(node.name, queue): end for node, queue, end in _queues(self.world.source)}
        running = {Lane(*state.source): state for state in states if state.phase is Phase.RUNNING}
        return all(
            end == 0 or (lane in running and running[lane].progress.position == end) for lane, end in lanes.items()
        )

    def unsettled(self) -> str:
        """Why it is not settled, for people."""
        found = [
            f"{sim.name} {Lane(*state.source)}: {state.phase} at {state.progress.position} {state.reason}"
            for sim in self.world.workers
            if sim.up and sim.worker is not None
            for state in sim.worker.routes.states
        ]
        ends = [f"{node.name}/{queue}: {end}" for node, queue, end in _queues(self.world.source)]
        return f"{found}, the source ends at {ends}"

    def rest(self) -> None:
        """From now on nothing happens that could cost a worker its lease; one that still starts has lost none."""
        self._fencings = {sim.name: sim.worker.fencings for sim in self.world.workers if sim.worker is not None}

    def verdict(self) -> None:
        """Raises what is wrong with the two topics as they are in the end, and with workers at rest."""
        for sim in self.world.workers:
            if sim.worker is not None and sim.worker.fencings != self._fencings.get(sim.name, 0):
                raise Violation(f"{sim.name} loses its lease though nothing keeps it from renewing it")
        copies = [m for node, queue, end in _queues(self.world.target) for m in _all(node, queue)]
        found = check(self.originals.values(), copies, ignore=lambda name: name in _RESERVED | {"UNIQ_KEY"})
        lost = [place for place in found.lost if not self._is_nowhere(place)]
        if lost or found.out_of_order or found.changed or found.extra or found.split or found.mixed:
            raise Violation(found.report())
        if found.duplicated and not self.late:
            raise Violation(found.report())
        for lane, deleted in self.deleted.items():
            begun = min((at for at, places in self.copies[lane].items() if places), default=None)
            missed = [
                each for each in deleted if begun is not None and each > begun and not self.copies[lane][each]
            ]
            if len(missed) > self.gaps[lane] and not self.lost_at_target[lane]:
                raise Violation(
                    f"{len(missed)} messages of {lane} were deleted unread, {self.gaps[lane]} are counted"
                )


def _queues(cluster: SimCluster) -> Iterator[tuple[Node, int, int]]:
    for node in cluster.nodes:
        for (topic, queue), stored in node.broker.store.queues.items():
            if topic == TOPIC:
                yield node, queue, stored.end


def _all(node: Node, queue: int) -> list[Message]:
    stored = node.broker.store.queue(TOPIC, queue)
    return _messages(node, queue, stored.first, len(stored.messages))


def _stored(node: Node, queue: int, offset: int, count: int) -> list[StoredMessage]:
    stored = node.broker.store.queue(TOPIC, queue)
    return parse_messages(b"".join(stored.messages[offset - stored.first : offset - stored.first + count]))


def _origin(message: StoredMessage) -> Place | None:
    copy = provenance.read(message.properties)
    return None if copy is None else Place(copy.broker, copy.queue_id, copy.offset)


def _messages(node: Node, queue: int, offset: int, count: int) -> list[Message]:
    found = []
    for message in _stored(node, queue, offset, count):
        told = properties.decode(message.properties)
        found.append(
            Message(
                Place(node.name, queue, message.queue_offset),
                hashlib.sha256(message.body).hexdigest(),
                keys=told.pop("KEYS", ""),
                tags=told.pop("TAGS", ""),
                flag=message.flag,
                properties={name: value for name, value in told.items() if name not in _RESERVED},
                origin=_origin(message),
            )
        )
    return found
