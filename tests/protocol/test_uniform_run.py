"""Compiled code gives the same on processors of another kind, and is built for each of them."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from replicator.protocol import uniform_run
from replicator.protocol.batch import KEPT_SYS_FLAGS
from replicator.protocol.uniform_run import UniformRun, messages_in
from tests.protocol.test_message import stored
from tests.support.debian import program
from tools.compile import PLATFORMS, SOURCE, compile_for

ROOT = Path(__file__).parent.parent.parent
DRIVER = ROOT / "tests" / "support" / "uniform_run_driver.c"
#: The `e_machine` of ELF files, and the first bytes of those of macOS.
X86_64, AARCH64 = b"\x3e\x00", b"\xb7\x00"
MACH_O = bytes.fromhex("cffaedfe0c000001")


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_library_for_each_platform(name: str, tmp_path: Path) -> None:
    library = tmp_path / "library.so"
    compile_for(name, library, root=ROOT)
    head = library.read_bytes()[:20]
    if name.startswith("macosx"):
        assert head.startswith(MACH_O)
    else:
        assert head.startswith(b"\x7fELF")
        assert head[18:20] == (AARCH64 if name.endswith("aarch64") else X86_64)


def blocks() -> list[bytes]:
    """Answers to pulls: of one message and of many, with long and no properties, and store times of all lengths."""
    whole = (
        b"KEYS\x01k\x02UNIQ_KEY\x010A00\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01east\x02"
    )
    return [
        stored(),
        b"".join(stored(offset=7 + at, time=10**at, body=b"b" * at * 99, properties=whole) for at in range(18)),
        b"".join(stored(offset=2**40 + at, properties=b"", topic=b"a-longer-topic") for at in range(32)),
        b"".join(
            stored(offset=at, sys_flag=0x30, magic=0xDAA320AB, properties=b"K\x01" + b"v" * 9000) for at in range(3)
        ),
    ]


@pytest.mark.fetched
@pytest.mark.skipif(not uniform_run.COMPILED, reason="there is nothing to compare with")
def test_on_aarch64_the_result_is_the_same(tmp_path: Path) -> None:
    """Run by qemu. The data is unaligned, and the processor's rules for that are others."""
    driver = tmp_path / "driver"
    command = [sys.executable, "-m", "ziglang", "cc", "-O2", "-static", "-target", "aarch64-linux-musl"]
    subprocess.run([*command, "-o", str(driver), str(DRIVER), str(ROOT / SOURCE)], check=True, cwd=ROOT)
    emulator = program("qemu-aarch64-static", "qemu-user-static")
    stamp, more, limit = b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/b/0/", 3, 1 << 20
    for data in blocks():
        texts = (data, stamp, uniform_run._NAMES, uniform_run._ADDED)
        numbers = (*map(len, texts), more, limit, KEPT_SYS_FLAGS)
        asked = struct.pack("=7q", *numbers) + b"".join(texts)
        run = messages_in(data)
        assert isinstance(run, UniformRun)
        made = run.entries(stamp, more=more, limit=limit)
        assert made is not None
        entries, times = made
        common = (len(run), run.offset, run.born_timestamp, int(run.same_born))
        expected = struct.pack("=4q", *common) + struct.pack("=q", len(entries)) + entries + times.tobytes()
        sent = run.sent() or b""
        expected += struct.pack("=q", len(sent)) + sent
        given = subprocess.run([emulator, str(driver)], input=asked, capture_output=True, check=True).stdout
        assert given == expected
