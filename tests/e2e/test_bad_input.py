"""One clear line each, naming field, value and the way out, before anything is written anywhere."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.sandbox import Cluster, ClusterSpec
from tests.support.clusters import ClusterPool
from tests.support.traffic import connected, create_topic, topics_of

SOURCE = ClusterSpec(name="east", version="5.3.3")
TARGET = ClusterSpec(name="west", version="5.3.3")
GUARDED = ClusterSpec(name="guarded", version="5.5.0", acl="2.0", tls_permissive=True)


async def _run(*arguments: str, cwd: Path) -> tuple[int, list[str]]:
    """Exit code and what was printed, line by line."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "replicator", *arguments),
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, output.decode().splitlines()


def _cases() -> list[tuple[str, Callable[[Cluster, Cluster], list[str]], int, list[str]]]:
    """Name, flags, exit code, words that the one line has."""

    def route(*more: str) -> Callable[[Cluster, Cluster], list[str]]:
        return lambda a, b: ["--source", a.namesrv, "--target", b.namesrv, "--rest-port", "0", *more]

    return [
        ("nothing", lambda _a, _b: [], 78, ["source is missing", "--source"]),
        (
            "no port",
            lambda a, _: ["--source", a.namesrv, "--target", "host"],
            78,
            ["target.namesrv", "'host'", "9876"],
        ),
        (
            "nobody there",
            lambda a, _: ["--source", a.namesrv, "--target", "127.0.0.1:1"],
            3,
            ["target.namesrv", "127.0.0.1:1", "refused"],
        ),
        (
            "unknown host",
            lambda _, b: ["--source", "no.such.host.invalid:9876", "--target", b.namesrv],
            3,
            ["source.namesrv", "no.such.host.invalid:9876"],
        ),
        (
            "a broker as name server",
            lambda a, b: ["--source", a.brokers[0].address, "--target", b.namesrv],
            3,
            ["is a broker, not a name server"],
        ),
        (
            "a broker as target",
            lambda a, b: ["--source", a.namesrv, "--target", b.brokers[0].address],
            3,
            ["is a broker, not a name server"],
        ),
        ("regex", route("--topics", "(unclosed"), 78, ["topics", "'(unclosed'", "regular expression"]),
        (
            "contradiction",
            route("--topics", "a", "--exclude-topics", "a"),
            78,
            ["topics has 'a'", "exclude_topics"],
        ),
        ("nothing left", route("--exclude-topics", ".*"), 78, ["topics has '.*'", "exclude_topics '.*'"]),
        ("unknown flag", route("--topcis", "a"), 2, ["--topcis", "--topics"]),
        ("tags and sql", route("--tags", "a", "--sql", "b > 1"), 78, ["tags and sql", "keep one"]),
        ("rename", route("--rename", "copy"), 78, ["rename", "'copy'", "{topic}"]),
        ("bad name", route("--rename", "a.{topic}"), 78, ["rename", "a.{topic}", "letters"]),
        ("time", route("--start-from", "yesterday"), 78, ["start_from", "'yesterday'", "ISO 8601"]),
        ("policy", route("--on-error", "ignore"), 78, ["on_error", "'ignore'", "dead-letter"]),
        ("number", route("--rate-messages", "many"), 78, ["rate_messages", "'many'"]),
        ("port", route("--rest-port", "99999"), 78, ["rest.port", "99999"]),
        ("no file", route("--config", "none.toml"), 78, ["config", "none.toml"]),
        ("certificate", route("--target-tls-mode", "verify", "--target-tls-ca-file", "none.pem"), 78, ["none.pem"]),
        ("wrong cluster", route("--source-cluster", "south"), 3, ["east", "cluster"]),
        ("store", route("--store-path", "/proc/nowhere"), 3, ["store_path", "/proc/nowhere"]),
        ("half a credential", route("--source-access-key", "ak"), 78, ["source", "access_key and a secret"]),
    ]


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [pytest.param(flags, code, words, id=name) for name, flags, code, words in _cases()],
)
async def test_mistakes(
    clusters: ClusterPool,
    tmp_path: Path,
    flags: Callable[[Cluster, Cluster], list[str]],
    code: int,
    words: list[str],
) -> None:
    """The line says what is wrong; neither cluster has a topic more than before, nor the disk a file."""
    source, target = await clusters.pair(SOURCE, TARGET)
    before = await topics_of(source), await topics_of(target)
    ended, lines = await _run(*flags(source, target), cwd=tmp_path)
    told = [line for line in lines if line.startswith("replicator: ")]
    assert ended == code, lines
    assert any(all(word in line for word in words) for line in told), lines
    assert not any("Traceback" in line for line in lines)
    assert (await topics_of(source), await topics_of(target)) == before
    assert _files(tmp_path) == []


def _files(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def test_tls_to_a_cluster_that_speaks_it_on_the_same_port(clusters: ClusterPool, tmp_path: Path) -> None:
    """Brokers are permissive by default: asking for encryption gets it, asking for a known peer does not."""
    source, target = await clusters.pair(SOURCE, GUARDED)
    flags = ("--source", source.namesrv, "--target", target.namesrv, "--target-tls-mode", "verify")
    ended, lines = await _run(*flags, "--rest-port", "0", cwd=tmp_path)
    assert ended == 3
    assert any("target.namesrv" in line and "certificate" in line for line in lines), lines


async def test_unknown_key_in_the_file(clusters: ClusterPool, tmp_path: Path) -> None:
    """With the name that was probably meant."""
    (tmp_path / "route.toml").write_text('sorce = "127.0.0.1:1"\ntarget = "127.0.0.1:2"\n')
    ended, lines = await _run("--config", "route.toml", cwd=tmp_path)
    assert ended == 78
    assert "replicator: sorce is not a setting: did you mean source?" in lines
    assert any(line.startswith("replicator: source is missing") for line in lines)


async def test_a_topic_of_an_unsupported_kind(
    clusters: ClusterPool, tmp_path: Path, topic_name: Callable[[str], str]
) -> None:
    """Batch consume queues: named before anything is made at the target."""
    source, target = await clusters.pair(SOURCE, TARGET)
    topic = topic_name("t")
    await create_topic(source, topic, queues=1, attributes={"queue.type": "BatchCQ"})
    before = await topics_of(target)
    flags = (
        "--source",
        source.namesrv,
        "--target",
        target.namesrv,
        "--topics",
        f"{topic}|other",
        "--rest-port",
        "0",
    )
    ended, lines = await _run(*flags, cwd=tmp_path)
    assert ended == 3
    assert any(topic in line and "BatchCQ" in line and "--exclude-topics" in line for line in lines), lines
    assert await topics_of(target) == before


async def test_missing_rights(clusters: ClusterPool, tmp_path: Path) -> None:
    """ACL 2.0 at the target, and nobody signs in."""
    source, target = await clusters.pair(SOURCE, GUARDED)
    async with connected(source):
        ended, lines = await _run(
            *("--source", source.namesrv, "--target", target.namesrv, "--rest-port", "0"), cwd=tmp_path
        )
    assert ended == 3
    assert any("guarded" in line and "see target.access_key" in line for line in lines), lines
