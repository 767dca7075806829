"""How far a Spark job is, as Prometheus reads it while the job runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from replicator.errors import StartupError
from replicator.observe.catalogue import JOBS, PREFIX

__all__ = ["JobNumbers", "served"]

_HOST: Final = "127.0.0.1"


class JobNumbers(Collector):
    """The figures of `command`; `queues` and `messages` are what it began with, None: it does not know.

    Written by the driver, read by scrapers.
    """

    def __init__(self, command: str, *, queues: int | None, messages: int | None) -> None:
        self.messages = 0
        self._command = command
        self._expected = {"queues": queues, "messages": messages}
        self._ended = {"done": 0, "failed": 0}
        self._findings: dict[str, int] = {}
        self._progress = time.time()

    def moved(self, messages: int) -> None:
        """So many messages have come in all."""
        if messages > self.messages:
            self.messages, self._progress = messages, time.time()

    def ended(self, *, failed: bool, findings: Mapping[str, int]) -> None:
        """A queue has ended, or a part of one; `findings` count what is worth a look, by its kind."""
        self._ended["failed" if failed else "done"] += 1
        self._progress = time.time()
        for kind, count in findings.items():
            self._findings[kind] = self._findings.get(kind, 0) + count

    def collect(self) -> Iterator[Metric]:
        yield _family("job_messages", [((self._command,), self.messages)])
        expected = self._expected["messages"]
        yield _family("job_messages_expected", [] if expected is None else [((self._command,), expected)])
        queues = dict(self._ended)
        if self._expected["queues"] is not None:
            queues["open"] = max(0, self._expected["queues"] - sum(self._ended.values()))
        yield _family("job_queues", [((self._command, state), count) for state, count in queues.items()])
        yield _family("job_findings", [((self._command, kind), n) for kind, n in self._findings.items()])
        yield _family("job_last_progress_timestamp_seconds", [((self._command,), self._progress)])


def _family(name: str, samples: list[tuple[tuple[str, ...], float]]) -> Metric:
    spec = JOBS[name]
    kind = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
    family: CounterMetricFamily | GaugeMetricFamily = kind(PREFIX + name, spec.text, labels=spec.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


@contextmanager
def served(numbers: JobNumbers, port: int | None) -> Iterator[None]:
    """/metrics on `port` of loopback meanwhile; None: nowhere.

    Raises:
        StartupError: the port cannot be used.
    """
    if port is None:
        yield
        return
    registry = CollectorRegistry()
    registry.register(numbers)
    try:
        server, thread = start_http_server(port, _HOST, registry)
    except OSError as error:
        raise StartupError(
            f"--metrics-port = {port} cannot be used ({error.strerror})", hint="give another one"
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
