"""Every target of `make fuzz` holds for its seeds, and for what is near to them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.errors import ConfigError, StartupError
from replicator.settings.name_patterns import NamePatterns
from replicator.state import state_file
from replicator.state.skipped_records import SkippedRecords
from tests.fuzz.__main__ import compiled
from tests.fuzz.targets import TARGETS

_WITHOUT_SETTINGS = msgspec.json.encode({**msgspec.json.decode(TARGETS["manifest"].seeds[0]), "route": "x"})
_NUL_IN_A_PATH = TARGETS["archive"].seeds[1].replace(b"a-0.parquet", rb"a\u0000.parquet")


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_their_neighbours(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=100)
    @given(
        st.sampled_from(target.seeds),
        st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=9)), max_size=4),
    )
    def holds(seed: bytes, edits: list[tuple[int, int, bytes]]) -> None:
        for at, length, new in edits:
            seed = seed[:at] + new + seed[at + length :]
        target.run(seed)

    for seed in target.seeds:
        target.run(seed)
    holds()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("tables", b"maxMessageSize=%b" % (b"9" * 5000), id="more digits than Python reads"),
        pytest.param("parked", b"TIMER_OUT_MS\x01" + b"9" * 5000, id="a time of more digits than Python reads"),
        pytest.param("parked", b"\xff\xc2\xb2s", id="a digit outside of ASCII"),
        pytest.param("addresses", b"[:9876", id="a bracket for a host"),
        pytest.param("streams", b"\x1c1", id="a space that is none for numbers"),
        pytest.param("streams", b"[" * 10_000, id="deep JSON"),
        pytest.param("owned", b"[1]", id="a list for what is kept of accounts"),
        pytest.param("owned", b'{"source_id":[1]}', id="a list for an id"),
        pytest.param("manifest", _WITHOUT_SETTINGS, id="a text for the settings of a backfill"),
        pytest.param("archive", _NUL_IN_A_PATH, id="a zero byte in a path"),
        pytest.param("tables", b'{"consumerIdList":5}', id="no list"),
        pytest.param("tables", b'{"offsetTable":{{"a":1}:{0:1}}}', id="an object for a name"),
    ],
)
def test_what_once_broke_a_target(name: str, data: bytes) -> None:
    TARGETS[name].run(data)


def test_what_state_files_say_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind their checksum: seeds without one get it, and all that is in them is taken."""
    unread: list[str] = []
    monkeypatch.setattr(state_file, "_set_aside", lambda path, _: unread.append(path.name))
    monkeypatch.setattr(SkippedRecords, "add", lambda _, *what: unread.append(str(what)))
    *seeds, wrong = TARGETS["state"].seeds
    for seed in seeds:
        TARGETS["state"].run(seed)
    assert (len(seeds), unread) == (5, [])
    TARGETS["state"].run(wrong)
    assert unread == ["taskConfig.json"]


def test_what_configurations_say_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed is understood, and its patterns are compiled: else no neighbour of it would have any."""
    matched: list[tuple[str, ...]] = []
    match = NamePatterns.match

    def noted(patterns: NamePatterns, name: str) -> bool:
        matched.append(patterns.texts)
        return match(patterns, name)

    monkeypatch.setattr(NamePatterns, "match", noted)
    for seed in TARGETS["configuration"].seeds:
        TARGETS["configuration"].run(seed)
    assert {("orders", "pay.*"), ("pay_[0-9]+",), ("(a|b)+c",)} <= {*matched}


def test_what_files_say_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds of accounts, manifests and archives are not refused: what is near to them is read as they are."""
    refused: list[Exception] = []
    monkeypatch.setattr(StartupError, "__init__", lambda error, *_, **__: refused.append(error))
    monkeypatch.setattr(ConfigError, "__init__", lambda error, *_, **__: refused.append(error))
    for name in ("acl-files", "owned", "manifest", "archive", "addresses"):
        for seed in TARGETS[name].seeds:
            TARGETS[name].run(seed)
    assert refused == []


@pytest.mark.skipif(shutil.which("gcc") is None, reason="it compiles")
def test_the_compiled_code_has_what_was_of_use_to_its_decoder(tmp_path: Path) -> None:
    """Under sanitizers, whose program has no coverage to go by."""
    files = [tmp_path / str(number) for number in range(len(TARGETS["messages"].seeds))]
    for file, seed in zip(files, TARGETS["messages"].seeds, strict=True):
        file.write_bytes(seed)
    done = subprocess.run(
        [str(compiled(tmp_path)), "0", *map(str, files)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"after {len(files)} files" in done.stdout
    assert " 0 of them alike" not in done.stdout
