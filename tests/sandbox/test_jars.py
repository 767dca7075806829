"""Jars come complete and verified, or with one error that says what is missing and what to do."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.server
import io
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from replicator.errors import SandboxError
from replicator.sandbox import commands, jars, maven
from replicator.sandbox.jars import Jar

CONTENT = {f"org/example/part{index}.jar": bytes([index]) * (300_000 + index) for index in range(4)}
NAME = "org/example/part0.jar"


class Repository(http.server.ThreadingHTTPServer):
    """A Maven repository with faults."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = dict(CONTENT)
        self.ranges = True
        self.cut_after: int | None = None
        self.endless = False
        self.asked: list[tuple[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/maven"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        path, start = self.path.partition("/maven/")[2], 0
        wanted = self.headers.get("Range", "")
        self.server.asked.append((path, wanted))
        if path not in self.server.content:
            self.send_error(404)
            return
        body = self.server.content[path]
        if wanted and self.server.ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(10**12 if self.server.endless else len(body) - start))
        self.end_headers()
        with contextlib.suppress(OSError):
            while self.server.endless:
                self.wfile.write(bytes(1024))
                time.sleep(0.0005)
        cut = self.server.cut_after
        self.wfile.write(body[start:] if cut is None else body[start : start + cut])

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    locked = tuple(
        Jar(path=path, size=len(body), sha256=hashlib.sha256(body).hexdigest()) for path, body in CONTENT.items()
    )
    monkeypatch.setattr(jars, "locked", lambda: {"9.9.9": locked, "one": locked[:1]})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Repository() as server:
        monkeypatch.setenv("REPLICATOR_MAVEN_REPOSITORY", server.url)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ensure(group: str) -> tuple[list[Path], str]:
    output = io.StringIO()
    return jars.ensure(group, console=Console(file=output, width=500)), output.getvalue()


def partial(name: str) -> Path:
    return jars.cache_directory() / (name + ".part")


def test_the_lock_file_has_every_version_and_the_compiler() -> None:
    locked = jars.locked()
    versions, proxies = ["4.9.7", "5.1.4", "5.3.3", "5.5.0"], ["5.3.3-proxy", "5.5.0-proxy"]
    assert sorted(locked) == sorted([*versions, *proxies, "ecj", "grpc-client", "hadoop"])
    for version in versions:
        names = {Path(jar.path).name for jar in locked[version]}
        wanted = {f"rocketmq-{part}-{version}.jar" for part in ("broker", "namesrv", "tools", "client")}
        assert wanted <= names


def test_fetches_once(repository: Repository) -> None:
    paths, said = ensure("9.9.9")
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    first, *quarters = said.splitlines()
    assert first == f"Fetching RocketMQ 9.9.9: 4 files, 1 MB from {repository.url}"
    assert quarters[-1] == "Fetching RocketMQ 9.9.9: 100 % of 1 MB"
    assert len(quarters) <= 4
    assert ensure("9.9.9") == (paths, "")
    assert sorted(path for path, _ in repository.asked) == sorted(CONTENT)


def test_continues_a_partial_file(repository: Repository) -> None:
    partial(NAME).parent.mkdir(parents=True)
    partial(NAME).write_bytes(CONTENT[NAME][:100_000])
    [path], _ = ensure("one")
    assert path.read_bytes() == CONTENT[NAME]
    assert repository.asked == [(NAME, "bytes=100000-")]
    assert not partial(NAME).exists()


def test_starts_over_without_ranges(repository: Repository) -> None:
    repository.ranges = False
    partial(NAME).parent.mkdir(parents=True)
    partial(NAME).write_bytes(b"x" * 100_000)
    [path], _ = ensure("one")
    assert path.read_bytes() == CONTENT[NAME]


def test_continues_after_a_lost_connection(repository: Repository) -> None:
    repository.cut_after = 120_000
    [path], _ = ensure("one")
    assert path.read_bytes() == CONTENT[NAME]
    assert [wanted for _, wanted in repository.asked] == ["", "bytes=120000-", "bytes=240000-"]


def test_refuses_other_bytes(repository: Repository) -> None:
    repository.content[NAME] = b"!" * len(CONTENT[NAME])
    with pytest.raises(SandboxError, match=r"part0.jar from http.*sha256 is [0-9a-f]{64}, expected") as caught:
        ensure("one")
    assert not partial(NAME).exists()
    assert not (jars.cache_directory() / NAME).exists()
    assert "REPLICATOR_MAVEN_REPOSITORY" in caught.value.hint


def test_says_what_is_missing_on_the_server(repository: Repository) -> None:
    del repository.content[NAME]
    with pytest.raises(SandboxError, match=r"part0.jar from http.*Not Found.*1 files are missing"):
        ensure("one")


def test_offline_is_one_clear_error(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICATOR_MAVEN_REPOSITORY", "http://127.0.0.1:9/maven")
    with pytest.raises(SandboxError) as caught:
        ensure("9.9.9")
    assert caught.value.message.startswith("RocketMQ 9.9.9 cannot be fetched: org/example/part")
    assert "from http://127.0.0.1:9/maven" in caught.value.message
    assert "refused" in caught.value.message
    assert caught.value.message.endswith("4 files are missing")
    assert str(jars.cache_directory()) in caught.value.hint


def test_takes_jars_from_the_local_maven(repository: Repository) -> None:
    present = maven.local_repository() / NAME
    present.parent.mkdir(parents=True)
    present.write_bytes(CONTENT[NAME])
    [path], said = ensure("one")
    assert path.read_bytes() == CONTENT[NAME]
    assert (said, repository.asked) == ("", [])


def test_leaves_damaged_jars_of_the_local_maven(repository: Repository) -> None:
    present = maven.local_repository() / NAME
    present.parent.mkdir(parents=True)
    present.write_bytes(b"?" * len(CONTENT[NAME]))
    [path], _ = ensure("one")
    assert path.read_bytes() == CONTENT[NAME]


def settings(home: Path, text: str) -> None:
    (home / ".m2").mkdir(parents=True)
    xmlns = "http://maven.apache.org/SETTINGS/1.0.0"
    (home / ".m2" / "settings.xml").write_text(f'<settings xmlns="{xmlns}">{text}</settings>')


MIRROR = "<mirrors><mirror><mirrorOf>{of}</mirrorOf><url>http://mirror.example/m2/</url></mirror></mirrors>"


@pytest.mark.parametrize("of", ["*", "central", "other, central"])
def test_honours_the_mirror_of_maven(of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPLICATOR_MAVEN_REPOSITORY", raising=False)
    settings(tmp_path, MIRROR.format(of=of))
    assert maven.source(tmp_path).url("a/b c.jar") == "http://mirror.example/m2/a/b%20c.jar"
    monkeypatch.setenv("REPLICATOR_MAVEN_REPOSITORY", "https://own.example")
    assert maven.source(tmp_path).repository == "https://own.example"


def test_goes_to_central_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPLICATOR_MAVEN_REPOSITORY", raising=False)
    settings(tmp_path, MIRROR.format(of="other"))
    assert maven.source(tmp_path).repository == maven.CENTRAL


PROXY = (
    "<proxies><proxy><active>false</active><host>old.example</host></proxy><proxy><active>true</active>"
    "<host>proxy.example</host><port>3128</port><username>me</username><password>p@ss</password>"
    "<nonProxyHosts>localhost|*.internal</nonProxyHosts></proxy></proxies>"
)


def test_honours_the_active_proxy_of_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.getproxies", dict)
    settings(tmp_path, PROXY)
    monkeypatch.setenv("REPLICATOR_MAVEN_REPOSITORY", "https://repo.example")
    assert maven.source(tmp_path).proxies["https"] == "http://me:p%40ss@proxy.example:3128"
    assert "p%40ss" not in repr(maven.source(tmp_path))
    monkeypatch.setenv("REPLICATOR_MAVEN_REPOSITORY", "https://repo.internal")
    assert maven.source(tmp_path).proxies == {}


def test_fetches_through_the_proxy(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", repository.url.removesuffix("/maven"))
    monkeypatch.setenv("REPLICATOR_MAVEN_REPOSITORY", "http://nowhere.invalid/maven")
    [path], _ = ensure("one")
    assert path.read_bytes() == CONTENT[NAME]


def test_a_jar_that_was_changed_in_the_cache_is_fetched_again(repository: Repository) -> None:
    """Of the same size, too: it is a program that is run."""
    (path,), _ = ensure("one")
    path.write_bytes(b"x" * path.stat().st_size)
    assert ensure("one")[0][0].read_bytes() == CONTENT[NAME]


_FETCHING = """
from replicator.sandbox import jars
from replicator.sandbox.jars import Jar
jars.locked = lambda: {"x": tuple(Jar(path=f"part{n}.jar", size=10**12, sha256="") for n in range(20))}
jars.ensure("x")
"""


def test_ctrl_c_ends_a_download(repository: Repository) -> None:
    """Soon, and not only when all that was begun has come; it stays for the next time."""
    repository.content = {f"part{number}.jar": bytes(10) for number in range(20)}
    repository.endless = True
    with subprocess.Popen([sys.executable, "-c", _FETCHING], stderr=subprocess.PIPE) as fetching:
        try:
            root = jars.cache_directory()
            deadline = time.monotonic() + 30
            while not any(part.stat().st_size for part in root.glob("*.part")) and time.monotonic() < deadline:
                time.sleep(0.05)
            fetching.send_signal(signal.SIGINT)
            assert fetching.wait(20) == -signal.SIGINT
        finally:
            repository.endless = False
            fetching.kill()
    assert [*root.glob("*.part")]


@pytest.mark.parametrize(("more", "proxies"), [([], []), (["--proxy"], ["5.3.3-proxy"])])
def test_a_cluster_is_downloaded_before_a_loop_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: list[str], proxies: list[str]
) -> None:
    """In which Ctrl-C would wait for the thread that downloads."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("replicator.sandbox.java.java", lambda: None)
    fetched: list[str] = []

    def fetch(group: str) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        fetched.append(group)
        if len(fetched) == 2 + len(proxies):
            assert threading.current_thread() is threading.main_thread()
            raise KeyboardInterrupt

    monkeypatch.setattr(jars, "ensure", fetch)
    ended = CliRunner().invoke(
        commands.app, ["up", "--version", "4.9.7", "--target-version", "5.3.3", *more], catch_exceptions=False
    )
    assert (ended.exit_code, fetched) == (130, ["4.9.7", "5.3.3", *proxies])
