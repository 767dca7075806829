"""No two sandboxes get the same ports, whether they are in one process or in two."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from replicator.errors import SandboxError
from replicator.sandbox import ports


def test_blocks_do_not_overlap_within_a_process() -> None:
    blocks = [ports.lease() for _ in range(5)]
    try:
        taken = [base + offset for base in (block.base for block in blocks) for offset in range(ports.BLOCK)]
        assert len(set(taken)) == len(taken)
    finally:
        for block in blocks:
            block.release()


def test_another_process_gets_another_block() -> None:
    mine = ports.lease()
    try:
        script = "from replicator.sandbox import ports; print(ports.lease().base)"
        output = subprocess.check_output([sys.executable, "-c", script], text=True)
        assert int(output) != mine.base
    finally:
        mine.release()


def test_a_child_keeps_the_block_after_its_parent_let_go() -> None:
    block = ports.lease()
    child = subprocess.Popen(["sleep", "60"], pass_fds=[block.descriptor])
    block.release()
    try:
        other = ports.lease()
        other.release()
        assert other.base != block.base
    finally:
        child.kill()
        child.wait()


def test_a_block_is_leased_again_once_its_process_has_ended() -> None:
    block = ports.lease()
    with pytest.raises(SandboxError, match=f"ports {block.base} to {block.base + 3} were taken"):
        ports.lease_again(block.base)
    block.release()
    with socket.create_server(("127.0.0.1", block.base + 1)), pytest.raises(SandboxError, match="taken"):
        ports.lease_again(block.base)
    again = ports.lease_again(block.base)
    again.release()
    assert again.base == block.base


def test_a_block_is_kept_for_a_cluster_that_may_come_back(tmp_path: Path) -> None:
    """As long as the state file says so; one that is gone keeps nothing."""
    block = ports.lease()
    state = tmp_path / "state.json"
    ports.reserve(block.base, state)
    block.release()
    for clusters, kept in (([{"processes": [{"port": block.base + 2}]}], True), ([], False)):
        state.write_text(json.dumps({"clusters": clusters}))
        other = ports.lease()
        other.release()
        assert (other.base != block.base) == kept
    state.unlink()
    assert not ports._reserved(block.base)


def test_passes_over_a_block_with_a_listener() -> None:
    block = ports.lease()
    with socket.create_server(("127.0.0.2", block.base + 3)):
        block.release()
        other = ports.lease()
        other.release()
        assert other.base != block.base
