"""The project's alerts in a real Prometheus, hurried so that a test need not wait for minutes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import yaml

from tests.support.prometheus import Prometheus, running
from tests.support.worker import Worker, until
from tools.dashboards.model import Board
from tools.dashboards.page import ROOT

__all__ = ["asked", "fires", "hurried", "panels_without_data", "rests", "watching"]


def hurried(rules: str) -> str:
    """The rules with seconds for minutes and minutes for hours; half an hour's lag is one of eight seconds."""
    rules = re.sub(r"(\[|for: |offset )(\d+)([mh])", lambda m: m[1] + m[2] + {"m": "s", "h": "m"}[m[3]], rules)
    return rules.replace("30 * 60", "8 * 1").replace("* 60", "* 1")


def watching(directory: Path, workers: Iterable[Worker]) -> AbstractAsyncContextManager[Prometheus]:
    """Prometheus with the project's rules, which scrapes each second."""
    directory.mkdir()
    (directory / "rules.yml").write_text(hurried((ROOT / "dashboards/rules.yml").read_text()))
    workers_at = [f"127.0.0.1:{worker.port}" for worker in workers]
    config = directory / "prometheus.yml"
    config.write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                "rule_files": ["rules.yml"],
                "scrape_configs": [
                    {"job_name": "rocketmq-replicator", "static_configs": [{"targets": workers_at}]}
                ],
            }
        )
    )
    return running(config)


async def fires(prometheus: Prometheus, *alerts: str, seconds: float = 60) -> None:
    """Waits until each of these has fired."""
    wanted = {f"Replicator{alert}" for alert in alerts}
    try:
        await until(lambda: wanted <= prometheus.fired(), seconds=seconds)
    except TimeoutError:
        raise AssertionError(f"does not fire: {wanted - prometheus.fired()}") from None


async def rests(prometheus: Prometheus, *alerts: str, seconds: float = 60) -> None:
    """Waits until none of these fires."""
    unwanted = {f"Replicator{alert}" for alert in alerts}
    try:
        await until(lambda: not unwanted & prometheus.firing(), seconds=seconds)
    except TimeoutError:
        raise AssertionError(f"still fires: {unwanted & prometheus.firing()}") from None


def asked(expression: str) -> str:
    """An expression of a board as Grafana sends it, of all that there is."""
    sent = expression.replace("$__rate_interval", "4s")
    sent = re.sub(r"\$(source|target|connector|topic|command)\b", ".*", sent)
    assert "$" not in sent
    return sent


def panels_without_data(
    prometheus: Prometheus, boards: Iterable[Board], *, since: float | None = None, until: float | None = None
) -> list[str]:
    """The panels whose expressions gave nothing at any time between, or not the labels of their legends."""
    now = time.time() if until is None else until
    empty = []
    for board in boards:
        for panel in board.panels:
            for legend, expression in panel.queries.items():
                sent = asked(expression)
                found = prometheus.ever(sent, since=since, until=now)
                labels = set(re.findall(r"\{\{(\w+)\}\}", legend))
                if not found or not all(labels <= series["metric"].keys() for series in found):
                    empty.append(f"{board.title}, {panel.title}: {sent}: {[s['metric'] for s in found]}")
    return empty
