"""What goes wrong in a simulated world: a few kinds of faults, drawn by the seed, until everything is healed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.simulation.cluster import Node, SimCluster
from tests.simulation.judge import Judge
from tests.simulation.store import TopicSettings
from tests.simulation.workers import SimWorker
from tests.simulation.world import TOPIC, SimWorld

__all__ = ["Nemesis"]

#: Seconds: a request that stays longer somewhere may be stored when nobody reckons with it any more.
_LATE = 0.8
_KINDS = 5


class Nemesis:
    """Faults in `world`, of some kinds only: so that each kind is also seen without most of the others."""

    def __init__(self, world: SimWorld, judge: Judge) -> None:
        self.world = world
        self.judge = judge
        self.healed = False
        self._chance = world.kernel.random
        self._paused: list[Node | SimWorker] = []
        kinds: list[Callable[[], str]] = [
            self._kill_worker,
            self._stop_worker,
            self._pause_worker,
            self._kill_broker,
            self._pause_broker,
            self._go_back,
            self._reset,
            self._swallow,
            self._cut,
            self._part,
            self._busy,
            self._grow,
            self._delete,
            self._set_clock,
            self._slow,
        ]
        self._kinds = self._chance.sample(kinds, self._chance.randint(1, _KINDS))

    def run(self) -> None:
        """Begins; ends with `heal`."""
        self._later(self._chance.uniform(1.0, 4.0), self._next)

    def _next(self) -> None:
        told = self._chance.choice(self._kinds)()
        if told:
            self.world.history.add("nemesis", told)
        self._later(self._chance.uniform(0.1, 2.5), self._next)

    def _later(self, seconds: float, do: Callable[[], object]) -> None:
        self.world.kernel.plan(seconds, lambda: None if self.healed else do())

    def heal(self) -> None:
        """Nothing is wrong any more."""
        self.healed = True
        network = self.world.network
        for sender, receiver in list(network._cuts):
            while network.is_cut(network.hosts[sender], network.hosts[receiver]):
                network.heal(sender, receiver)
        network.slow.clear()
        for cluster in (self.world.source, self.world.target):
            for node in cluster.nodes:
                node.broker.busy, node.broker.swallow = False, 0
                if node.host.process.paused:
                    node.host.process.resume()
                if not node.up:
                    cluster.start(node)
        for worker in self.world.workers:
            if worker.host.process.paused:
                worker.host.process.resume()
            if not worker.up:
                worker.start()

    # Workers.

    def _worker(self) -> SimWorker | None:
        up = [each for each in self.world.workers if each.up and not each.host.process.paused]
        return self._chance.choice(up) if up else None

    def _start_again(self, worker: SimWorker) -> None:
        self._later(self._chance.uniform(0.05, 4.0), worker.start_again)

    def _kill_worker(self) -> str:
        worker = self._worker()
        if worker is None:
            return ""
        worker.kill()
        wiped = self._chance.random() < 0.3
        if wiped:
            worker.wipe()
        self._start_again(worker)
        return f"kills {worker.name}{' and wipes its disk' * wiped}"

    def _stop_worker(self) -> str:
        worker = self._worker()
        if worker is None:
            return ""
        worker.stop()
        self._later(self._chance.uniform(1.0, 6.0), worker.start_again)
        return f"stops {worker.name}"

    def _pause_worker(self) -> str:
        worker = self._worker()
        if worker is None:
            return ""
        process, seconds = worker.host.process, self._chance.uniform(0.2, 10.0)
        process.pause()
        self._later(seconds, process.resume)
        return f"pauses {worker.name} for {seconds:.1f} s"

    def _set_clock(self) -> str:
        worker = self._worker()
        if worker is None:
            return ""
        worker.host.process.ahead += (step := self._chance.choice((-3600.0, -5.0, 5.0, 3600.0)))
        return f"sets the clock of {worker.name} by {step:g} s"

    # Brokers.

    def _node(self) -> tuple[SimCluster, Node] | None:
        cluster = self._chance.choice((self.world.source, self.world.target, self.world.target))
        up = [node for node in cluster.nodes if node.up and not node.host.process.paused]
        return (cluster, self._chance.choice(up)) if up else None

    def _kill_broker(self) -> str:
        found = self._node()
        if found is None:
            return ""
        cluster, node = found
        cluster.kill(node)
        self._later(self._chance.uniform(0.1, 5.0), lambda: None if node.up else cluster.start(node))
        return f"kills {node.name}"

    def _pause_broker(self) -> str:
        found = self._node()
        if found is None:
            return ""
        process, seconds = found[1].host.process, self._chance.choice((0.3, 0.7, 3.0, 12.0))
        self.judge.late |= seconds > _LATE
        process.pause()
        self._later(seconds, process.resume)
        return f"pauses {found[1].name} for {seconds:.1f} s"

    def _target(self) -> Node | None:
        up = [node for node in self.world.target.nodes if node.up and not node.host.process.paused]
        return self._chance.choice(up) if up else None

    def _go_back(self) -> str:
        node = self._target()
        if node is None:
            return ""
        mark = node.broker.store.mark()

        def restore() -> None:
            if node.up and not node.host.process.paused:
                self.world.history.add("nemesis", f"restores an older store of {node.name}")
                self.world.target.kill(node)
                node.broker.store.go_back(mark)
                self.judge.target_goes_back(node)
                self.world.target.start(node)

        self._later(self._chance.uniform(0.1, 3.0), restore)
        return f"backs up {node.name}"

    def _swallow(self) -> str:
        node = self._target()
        if node is None:
            return ""
        node.broker.swallow += 1
        return f"loses the next answer of {node.name}"

    def _busy(self) -> str:
        node = self._target()
        if node is None:
            return ""
        broker = node.broker
        broker.busy = True
        self._later(self._chance.uniform(0.1, 4.0), lambda: setattr(broker, "busy", False))
        return f"{node.name} is busy"

    def _slow(self) -> str:
        node = self._target()
        if node is None:
            return ""
        node.broker.slow = self._chance.choice((0.002, 0.05, 0.4))
        return f"{node.name} takes up to {node.broker.slow:g} s"

    def _grow(self) -> str:
        node = self._chance.choice(self.world.source.nodes)
        queues = node.broker.store.topics[TOPIC].write_queues + 1
        if not node.up or queues > 5:
            return ""
        node.broker.store.change_topic(TOPIC, TopicSettings(queues, queues))
        return f"{node.name} has {queues} queues"

    def _delete(self) -> str:
        node = self._chance.choice(self.world.source.nodes)
        queue = self._chance.randrange(node.broker.store.topics[TOPIC].write_queues)
        stored = node.broker.store.queue(TOPIC, queue)
        if not node.up or not stored.messages:
            return ""
        first = stored.first + self._chance.randint(0, len(stored.messages) - 1)
        self.judge.source_deletes(node, queue, first)
        return f"retention deletes {node.name}/{queue} up to {first}"

    # The network.

    def _reset(self) -> str:
        wires = [wire for worker in self.world.workers for wire in worker.host.wires.values()]
        if not wires:
            return ""
        wire = self._chance.choice(sorted(wires, key=lambda each: each.number))
        wire.reset()
        return f"resets {wire.client.name} to {wire.server.name}"

    def _part(self) -> str:
        """Each of two workers loses another broker of the source: neither hears the other there."""
        if len(self.world.workers) < 2 or len(self.world.source.nodes) < 2:
            return ""
        workers = self._chance.sample(self.world.workers, 2)
        nodes = self._chance.sample(self.world.source.nodes, 2)
        seconds = self._chance.choice((6.0, 10.0, 20.0))
        self.judge.late = True
        pairs = [(each.host.name, node.host.name) for each, node in zip(workers, nodes, strict=True)]
        both_ways = [*pairs, *((receiver, sender) for sender, receiver in pairs)]
        for pair in both_ways:
            self.world.network.cut(*pair)
            self._later(seconds, partial(self.world.network.heal, *pair))
        return f"parts {' and '.join(' from '.join(pair) for pair in pairs)} for {seconds:g} s"

    def _cut(self) -> str:
        worker = self._chance.choice(self.world.workers).host.name
        cluster = self._chance.choice((self.world.source, self.world.target))
        hosts = [*(node.host for node in cluster.nodes), cluster.namesrv.host]
        pair = (worker, self._chance.choice(hosts).name)[:: self._chance.choice((1, -1))]
        seconds = self._chance.choice((0.2, 0.6, 4.0, 10.0))
        self.judge.late |= seconds > _LATE
        self.world.network.cut(*pair)
        self._later(seconds, lambda: self.world.network.heal(*pair))
        return f"cuts {pair[0]} to {pair[1]} for {seconds:g} s"
