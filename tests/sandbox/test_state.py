"""The file that says which clusters run, and who starts them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replicator.errors import SandboxError
from replicator.sandbox.process import ProcessId
from replicator.sandbox.spec import ClusterSpec
from replicator.sandbox.state import State

SPEC = ClusterSpec(name="east")


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another command of the sandbox, which is still at work."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def started_by(state: State, other: subprocess.Popen[bytes]) -> None:
    content = json.loads((state.root / "state.json").read_text())
    content["clusters"][0]["by"] = [other.pid, ProcessId.of(other.pid).started]
    (state.root / "state.json").write_text(json.dumps(content))


def test_two_commands_do_not_start_one_cluster(tmp_path: Path, other: subprocess.Popen[bytes]) -> None:
    """Also while none of its processes has begun; the first one's files stay."""
    state = State(tmp_path)
    state.add(SPEC)
    started_by(state, other)
    kept = state.cluster_directory("east")
    kept.mkdir(parents=True)
    with pytest.raises(SandboxError, match="east is being started"):
        state.add(SPEC)
    assert kept.exists()
    other.kill()
    other.wait()
    state.add(SPEC)  # it was killed: nobody starts it any more
    assert not kept.exists()


async def test_data_of_a_cluster_that_has_ended_is_not_replaced_unasked(
    tmp_path: Path, other: subprocess.Popen[bytes]
) -> None:
    """As after `sandbox kill`, or a restart of the machine."""
    state = State(tmp_path)
    state.add(SPEC)
    home = state.cluster_directory("east") / "namesrv"
    home.mkdir(parents=True)
    node = SimpleNamespace(
        process_id=ProcessId.of(other.pid),
        name="east-ns",
        home=home,
        role="name server",
        address="127.0.0.1:1",
        port=1,
        block=60_000,
    )
    state.record(SPEC, cast("Any", node))
    with pytest.raises(SandboxError, match="already running"):
        state.add(SPEC, force=True)
    other.kill()
    other.wait()
    with pytest.raises(SandboxError, match="has ended, and its data is still there") as refused:
        state.add(SPEC)
    assert "replicator sandbox start east" in (refused.value.hint or "")
    assert home.exists()
    state.add(SPEC, force=True)
    assert not home.exists()


async def test_what_starts_in_a_cluster_that_was_ended_is_refused(tmp_path: Path) -> None:
    """So that whoever started it ends it; nobody else would."""
    state = State(tmp_path)
    state.add(SPEC)
    await state.end("east")
    node = SimpleNamespace(
        process_id=ProcessId(pid=1, started=1),
        name="east-ns",
        home=tmp_path / "namesrv",
        role="name server",
        address="127.0.0.1:1",
        port=1,
    )
    with pytest.raises(SandboxError, match="was ended while it started"):
        state.record(SPEC, cast("Any", node))
