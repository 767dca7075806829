"""Every module has a test: in the mirrored place, in a test module that imports it, or where the table says.

What is tested from outside alone, by its commands, its REST or its messages, is imported by no test.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"

#: Modules, and for each the test module that covers it, by what it shows from outside.
ELSEWHERE = {
    "acl_sync.wire": "acl_sync/test_brokers.py",
    "replicator.__main__": "test_cli.py",
    "replicator.api.actor": "e2e/test_workers.py",
    "replicator.api.answer": "api/test_answers.py",
    "replicator.api.audit_answers": "e2e/test_audit.py",
    "replicator.api.broker_answers": "e2e/test_brokers_come_and_go.py",
    "replicator.api.brokers": "e2e/test_brokers_come_and_go.py",
    "replicator.api.checking": "e2e/test_rest.py",
    "replicator.api.group": "e2e/test_rest.py",
    "replicator.api.logs": "e2e/test_worker_metrics.py",
    "replicator.api.pending_answers": "e2e/test_pending_messages.py",
    "replicator.api.worker": "api/test_app.py",
    "replicator.client.query": "e2e/test_rest.py",
    "replicator.client.rights": "e2e/test_missing_rights.py",
    "replicator.connector.interface": "worker/test_task_runner.py",
    "replicator.demo.child": "demo/test_demo.py",
    "replicator.demo.clusters": "demo/test_demo.py",
    "replicator.demo.command": "demo/test_demo.py",
    "replicator.demo.orders": "demo/test_demo.py",
    "replicator.demo.ownclient.consumer": "demo/test_demo.py",
    "replicator.demo.ownclient.producer": "demo/test_demo.py",
    "replicator.demo.programs": "demo/test_demo.py",
    "replicator.demo.pyclient.consumer": "demo/test_demo.py",
    "replicator.demo.pyclient.install": "demo/test_demo.py",
    "replicator.demo.pyclient.producer": "demo/test_demo.py",
    "replicator.demo.pyclient.shim": "demo/test_demo.py",
    "replicator.demo.stage": "demo/test_demo.py",
    "replicator.demo.stop": "demo/test_demo.py",
    "replicator.demo.traffic": "demo/test_demo.py",
    "replicator.demo.view": "demo/test_demo.py",
    "replicator.demo.worker": "demo/test_demo.py",
    "replicator.group.local_log": "e2e/test_group_faults.py",
    "replicator.group.no_log": "e2e/test_dead_site.py",
    "replicator.metadata.apply": "e2e/test_metadata_sync.py",
    "replicator.observe.jobs": "spark/test_job_metrics.py",
    "replicator.operate.doctor.route": "e2e/test_doctor.py",
    "replicator.operate.jobs.job_preflight": "spark/test_surroundings.py",
    "replicator.operate.jobs.manifest": "spark/test_archive.py",
    "replicator.operate.run": "test_cli.py",
    "replicator.parent_guard": "test_worker_processes.py",
    "replicator.plugins.interface": "plugins/test_file.py",
    "replicator.protocol.property_pairs": "spark/source/test_property_column.py",
    "replicator.ranges.pair_run": "ranges/test_copier.py",
    "replicator.ranges.suspend_guard": "spark/test_paused.py",
    "replicator.routing.audit_counts": "routing/test_audit_trail.py",
    "replicator.routing.checked_send": "routing/test_sink_task.py",
    "replicator.routing.data_path": "e2e/test_recovery.py",
    "replicator.sandbox.broker": "sandbox/test_cluster.py",
    "replicator.sandbox.config": "sandbox/test_cluster.py",
    "replicator.sandbox.controller": "e2e/test_controller_mode.py",
    "replicator.sandbox.download": "sandbox/test_jars.py",
    "replicator.sandbox.node": "sandbox/test_cluster.py",
    "replicator.sandbox.proxy": "e2e/test_pop_consumers.py",
    "replicator.sandbox.reports": "sandbox/test_commands.py",
    "replicator.sandbox.running": "sandbox/test_commands.py",
    "replicator.sandbox.topic_commands": "sandbox/test_commands.py",
    "replicator.settings.acl": "settings/test_route.py",
    "replicator.settings.names": "settings/test_route.py",
    "replicator.settings.sections": "test_command_app.py",
    "replicator.settings.sizes": "settings/test_model.py",
    "replicator.settings.table": "settings/test_model.py",
    "replicator.spark.engine.quiesce": "spark/test_backfill.py",
    "replicator.spark.resident.job": "spark/resident/test_owner.py",
    "replicator.state.sync_values": "state/test_record_types.py",
    "replicator.worker.group_part": "e2e/test_group_faults.py",
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


def test_every_module_has_a_test() -> None:
    """And the table says nothing that is not needed or not there."""
    known = imported()
    others = {name for name, path in modules().items() if not mirrored(path).exists() and name not in known}
    assert sorted(others - ELSEWHERE.keys()) == []
    assert sorted(ELSEWHERE.keys() - others) == [], "not there any more, packages, or tested elsewhere"
    assert [place for place in ELSEWHERE.values() if not (TESTS / place).exists()] == []
