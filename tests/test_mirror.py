"""Every module has a test: in the mirrored place, in a test module that imports it, or where the table says.

What is tested from outside alone, by its commands, its REST or its messages, is imported by no test.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"

#: Modules, or packages with all their modules, and the test module that covers them.
ELSEWHERE = {
    "acl_sync.wire": "acl_sync/test_brokers.py",
    "replicator.__main__": "test_cli.py",
    "replicator.admin.target_losses": "e2e/test_target_loss.py",
    "replicator.api": "e2e/test_rest.py",
    "replicator.api.answer": "api/test_answers.py",
    "replicator.api.logs": "e2e/test_worker_metrics.py",
    "replicator.client.query": "e2e/test_rest.py",
    "replicator.client.rights": "e2e/test_missing_rights.py",
    "replicator.connector.interface": "worker/test_task_runner.py",
    "replicator.demo": "demo/test_demo.py",
    "replicator.group.local_log": "e2e/test_group_faults.py",
    "replicator.group.no_log": "e2e/test_dead_site.py",
    "replicator.metadata": "metadata/test_syncer.py",
    "replicator.metadata.apply": "e2e/test_metadata_sync.py",
    "replicator.observe.jobs": "spark/test_job_metrics.py",
    "replicator.operate": "spark/test_surroundings.py",
    "replicator.operate.doctor.route": "e2e/test_doctor.py",
    "replicator.operate.jobs.manifest": "spark/test_archive.py",
    "replicator.operate.run": "test_cli.py",
    "replicator.parent_guard": "test_worker_processes.py",
    "replicator.plugins.interface": "plugins/test_file.py",
    "replicator.ranges.suspend_guard": "spark/test_paused.py",
    "replicator.routing": "e2e/test_recovery.py",
    "replicator.sandbox": "sandbox/test_cluster.py",
    "replicator.sandbox.download": "sandbox/test_jars.py",
    "replicator.settings": "test_settings.py",
    "replicator.spark.engine.quiesce": "spark/test_backfill.py",
    "replicator.spark.resident.job": "spark/resident/test_owner.py",
    "replicator.spark.source": "spark/test_datasource.py",
    "replicator.worker": "e2e/test_workers.py",
}


def modules() -> dict[str, Path]:
    """By their names; what a package offers is in its modules."""
    paths = [
        path
        for package in ("replicator", "acl_sync", "pyspark_rocketmq")
        for path in (ROOT / package).rglob("*.py")
    ]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths if path.stem != "__init__"
    }


def imported() -> set[str]:
    """All that test modules import; those in tests/support test nothing."""
    names = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names |= {str(node.module), *(f"{node.module}.{each.name}" for each in node.names)}
            elif isinstance(node, ast.Import):
                names |= {each.name for each in node.names}
    return names


def mirrored(path: Path) -> Path:
    """Where the test module of a module would be."""
    place = path.relative_to(ROOT)
    directory = place.relative_to("replicator").parent if place.parts[0] == "replicator" else place.parent
    return TESTS / directory / f"test_{path.stem}.py"


def entry(name: str) -> str:
    """The closest entry of the table; empty where there is none."""
    while name and name not in ELSEWHERE:
        name = name.rpartition(".")[0]
    return name


def test_every_module_has_a_test() -> None:
    """And the table says nothing that is not needed or not there."""
    known = imported()
    others = [name for name, path in modules().items() if not mirrored(path).exists() and name not in known]
    assert [name for name in others if not entry(name)] == []
    assert ELSEWHERE.keys() - set(map(entry, others)) == set()
    assert [place for place in ELSEWHERE.values() if not (TESTS / place).exists()] == []
