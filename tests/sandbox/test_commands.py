"""`sandbox up` leaves clusters behind that `status` tells the truth about and `down` ends, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator.client.brokers import read_settings
from replicator.client.cluster import Cluster
from replicator.client.security import Credentials, Security, tls_context
from replicator.command_output import Output
from replicator.errors import BrokerRefused, SandboxError
from replicator.sandbox import commands
from replicator.sandbox.process import ProcessId
from replicator.sandbox.state import State
from tests.support.printed import check_printed

pytestmark = pytest.mark.brokers

FAQ = Path(__file__).parents[2] / "docs" / "FAQ.md"
SCRIPT = "from replicator.sandbox.commands import app; app()"


def sandbox(*arguments: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "200"},
    )
    check_printed(("sandbox", *arguments), ended.stdout)
    return ended


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield tmp_path / "rocketmq-replicator" / "sandbox" / "state.json"
    sandbox("down")


async def assert_let_in(address: str, *, brokers: list[str], account: tuple[str, str], ca: Path) -> None:
    """Each of these brokers serves TLS and this account, and refuses others."""
    tls = tls_context("verify", ca_file=ca, cert_file=None, key_file=None)
    known, other = (
        Cluster([address], security=Security(Credentials(*keys), tls)) for keys in (account, ("x", "y"))
    )
    try:
        assert sorted((await known.refresh()).brokers) == brokers
        await other.refresh()
        for name in brokers:
            await read_settings(known.master(name))
            with pytest.raises(BrokerRefused):
                await read_settings(other.master(name))
    finally:
        await known.close()
        await other.close()


def processes(state: Path) -> list[ProcessId]:
    content = json.loads(state.read_text())
    return [
        ProcessId(pid=process["pid"], started=process["started"])
        for cluster in content["clusters"]
        for process in cluster["processes"]
    ]


def assert_steps(told: str, *names: str) -> None:
    """Without a terminal each process that answers is a line, with the time since the beginning."""
    begun, *steps = told.splitlines()
    assert begun == "Starting north and south …"
    for name in names:
        assert [line for line in steps if re.fullmatch(rf" *\d+\.\d s  {name} answers at 127\.0\.0\.1:\d+", line)]


def assert_group(cluster: str) -> None:
    """A group goes on where it was, whatever the command was told to begin with."""
    read = [
        json.loads(sandbox("consume", "orders", "--cluster", cluster, "--group", "g", *more, "-o", "json").stdout)
        for more in (("--count", "10"), (), ("--from", "earliest"))
    ]
    assert [len(messages) for messages in read] == [10, 16, 0]
    assert len({message["keys"] for messages in read for message in messages}) == 26
    assert sandbox("consume", "orders", "--cluster", cluster, "--from", "latest").stdout == ""
    later = sandbox("consume", "orders", "--cluster", cluster, "--from", "2000-01-01", "--count", "3")
    assert len(later.stdout.splitlines()) == 3


def assert_following(cluster: str) -> None:
    """Messages are shown as they come; Ctrl-C is how it is meant to end."""
    following = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "consume", "orders", "--cluster", cluster, "--from", "latest", "-f"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    try:
        deadline = time.monotonic() + 60
        lines = threading.Thread(target=lambda: shown.append(following.stdout.readline()))  # type: ignore[union-attr]
        shown: list[str] = []
        lines.start()
        while lines.is_alive() and time.monotonic() < deadline:  # it says nothing before the first message
            sandbox("produce", "orders", "--cluster", cluster, "--count", "1", "--keys", "k{n}", "--tag", "t")
            lines.join(0.5)
        assert re.search(r" k\d+ \{", shown[0])
        following.send_signal(signal.SIGINT)
        assert following.wait(30) == 0
    finally:
        following.kill()
        following.stdout.close()


def assert_messages(first: str, last: str) -> None:
    """Topics are made and messages sent at the first cluster, and shown at the last, unless one is named."""
    made = json.loads(sandbox("topic", "orders", "--queues", "2", "-o", "json").stdout)
    assert (made["cluster"], made["queues"] % 2) == (first, 0)
    sent = sandbox("produce", "orders", "--count", "25", "--size", "200")
    assert (sent.returncode, sent.stdout) == (0, f"Sent 25 messages to orders at {first}.\n")
    shown = json.loads(sandbox("consume", "orders", "--cluster", first, "-o", "json").stdout)
    assert sorted(message["keys"] for message in shown) == sorted(f"order-{i}" for i in range(25))
    assert all(len(message["body"]) >= 200 and message["copied_from"] is None for message in shown)
    lines = sandbox("consume", "orders", "--cluster", first).stdout.splitlines()
    assert len(lines) == 25
    later = json.loads(sandbox("produce", "orders", "--count", "1", "-o", "json").stdout)
    assert (later["first"], later["messages"]) == (25, 1)
    assert sum(line.startswith(f"{first}-a/0 0 order-") for line in lines) == 1
    held = json.loads(sandbox("topics", "--cluster", first, "-o", "json").stdout)
    assert [(topic["topic"], topic["messages"], topic["perms"]) for topic in held] == [("orders", 26, [6])]
    assert json.loads(sandbox("topics", "-o", "json").stdout) == held
    nothing = sandbox("consume", "orders")
    assert nothing.returncode == 3
    assert nothing.stderr == "the cluster has no topic 'orders': create it with `replicator sandbox topic orders`\n"
    nowhere = sandbox("produce", "orders", "--cluster", "x")
    assert nowhere.returncode == 78
    assert nowhere.stderr == f"--cluster 'x': there are {first}, {last}: name one of these\n"


def assert_mqadmin(cluster: str, *, home: Path) -> None:
    """As the questions say how: with the jars and the Java of the sandbox."""
    (function,) = [line for line in FAQ.read_text().splitlines() if line.startswith("mqadmin() {")]
    found = json.loads(sandbox("status", "-o", "json").stdout)["clusters"]
    processes = [process for each in found for process in each["processes"]]
    (server,) = [each["address"] for each in processes if each["name"] == f"{cluster}-namesrv"]
    python = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{python}{os.pathsep}{os.environ['PATH']}",
        "JAVA_TOOL_OPTIONS": f"-Duser.home={home}",
    }
    typed = f"{function}\nmqadmin clusterList -n {server}"
    ended = subprocess.run(["bash", "-c", typed], env=environment, capture_output=True, text=True, check=True)
    assert f"{cluster}-a" in ended.stdout


def states(cluster: str) -> dict[str, str]:
    found = json.loads(sandbox("status", "-o", "json").stdout)["clusters"]
    return {each["name"]: each["state"] for one in found if one["name"] == cluster for each in one["processes"]}


def assert_brought_back(cluster: str, *, first: int, state: Path) -> None:
    """What was killed comes back at its address with its messages and offsets; what runs is left alone."""
    broker, server = f"{cluster}-a", f"{cluster}-namesrv"
    before = processes(state)
    assert sandbox("start", broker).returncode == 0  # as whoever called this has killed it
    assert states(cluster) == {broker: "running", server: "running"}
    assert sum(process.running() for process in before) == len(before) - 1
    for name, left in (
        (broker, {broker: "ended", server: "running"}),
        (cluster, {broker: "ended", server: "ended"}),
    ):
        killed = sandbox("kill", name)
        assert (killed.returncode, states(cluster)) == (0, left)
    alone = sandbox("topics")
    assert (alone.returncode, alone.stdout) == (3, ""), "what the dead one has is not known"
    assert sandbox("topic", "bills", "--cluster", "south").returncode == 0
    others = sandbox("topics")
    assert others.returncode == 3
    assert "bills" in others.stdout
    assert re.fullmatch(rf"{cluster}: 127\.0\.0\.1:\d+ cannot be reached .*\n", others.stderr)
    assert sandbox("start", broker, server).returncode == 0
    assert states(cluster) == {broker: "running", server: "running"}
    held = json.loads(sandbox("consume", "orders", "--cluster", cluster, "-o", "json").stdout)
    assert len(held) >= first
    nothing = sandbox("start", cluster)
    assert nothing.stderr.endswith(f" s  {server}, {broker}: nothing to start, all of it runs\n")
    unknown = sandbox("kill", "x")
    assert unknown.returncode == 78
    assert unknown.stderr.startswith(f"nothing is called 'x': there are {cluster}, {broker}, {server}, ")


def test_up_status_down(state: Path) -> None:
    result = sandbox("up", "--clusters", "north,south", "--version", "4.9.7", "--target-version", "5.3.3")
    assert result.returncode == 0
    assert_steps(result.stderr, "name server north-namesrv", "master north-a", "master south-a")
    assert "replicator --source 127.0.0.1:" in result.stdout
    started = processes(state)
    assert len(started) == 4
    assert all(process.running() for process in started)

    result = sandbox("status")
    assert result.returncode == 0
    assert result.stdout.count("running") == 4
    assert "4.9.7" in result.stdout
    assert "5.3.3" in result.stdout

    result = sandbox("up", "--clusters", "south")
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr == "cluster south is already running: replicator sandbox down\n"

    assert_messages("north", "south")
    assert_group("north")
    assert_following("north")
    assert_mqadmin("south", home=state.parent)

    started[1].signal(signal.SIGKILL)
    result = sandbox("status")
    assert result.returncode == 5
    assert result.stdout.count("running") == 3
    assert result.stdout.count("ended") == 1

    assert_brought_back("north", first=26, state=state)
    started += processes(state)

    assert sandbox("kill", "north").returncode == 0
    result = sandbox("up", "--clusters", "north")
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.startswith(
        "cluster north has ended, and its data is still there: `replicator sandbox start"
    )
    assert json.loads(sandbox("start", "north", "-o", "json").stdout)["clusters"][0]["processes"]
    assert json.loads(sandbox("consume", "orders", "--cluster", "north", "-o", "json").stdout)
    assert sandbox("kill", "north").returncode == 0
    result = sandbox("up", "--clusters", "north", "--version", "4.9.7", "--force")
    assert result.returncode == 0, result.stderr
    assert "orders" not in sandbox("topics", "--cluster", "north").stdout
    started += processes(state)

    result = sandbox("down")
    assert (result.returncode, result.stdout) == (0, "Ended north, south.\n")
    assert not any(process.running() for process in started)
    assert list((state.parent / "clusters").iterdir()) == []
    assert sandbox("status").stdout == "No clusters are up.\n"


def test_up_with_accounts_tls_and_brokers(state: Path) -> None:
    """Each side has the access control of its version; `status` tells how to get in."""
    versions = ("--version", "4.9.7", "--acl", "1.0", "--target-version", "5.5.0", "--target-acl", "2.0")
    result = sandbox("up", "--clusters", "north,south", *versions, "--brokers", "2", "--tls")
    assert result.returncode == 0
    assert_steps(result.stderr, "master north-a", "master north-b", "master south-a", "master south-b")
    started = processes(state)
    assert len(started) == 6

    result = sandbox("status")
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("running") == 6
    north, south = json.loads(sandbox("status", "-o", "json").stdout)["clusters"]
    assert {process["state"] for process in north["processes"] + south["processes"]} == {"running"}
    assert Path(north["ca_file"]).exists()
    addresses = re.findall(r"replicator --source (\S+) --target (\S+)", result.stdout)[0]
    for name, address in zip(("north", "south"), addresses, strict=True):
        (account,) = re.findall(rf"^{name}: access key (\w+), secret key (\w+)$", result.stdout, re.MULTILINE)
        (ca,) = re.findall(rf"^{name}: TLS, certificate authority (.+)$", result.stdout, re.MULTILINE)
        asyncio.run(assert_let_in(address, brokers=[f"{name}-a", f"{name}-b"], account=account, ca=Path(ca)))

    # As printed, it starts a replicator that is let in: the doctor takes what a worker takes.
    line = "\n".join(re.findall(r"^(?:export|replicator) .+$", result.stdout, re.MULTILINE))
    looked = subprocess.run(
        ["/bin/sh", "-c", line.replace("replicator --source", f"{sys.executable} -m replicator doctor --source")],
        capture_output=True,
        text=True,
        check=False,
    )
    for name in ("north", "south"):
        for broker in ("a", "b"):
            assert re.search(rf"{name}-{broker}\s+answers at", looked.stdout), looked.stdout + looked.stderr

    assert_messages("north", "south")
    assert sandbox("kill", "north", "south-b").returncode == 0
    assert sandbox("start", "north", "south").returncode == 0
    assert {*states("north").values(), *states("south").values()} == {"running"}
    assert len(sandbox("consume", "orders", "--cluster", "north").stdout.splitlines()) == 26
    started += processes(state)

    assert sandbox("down").returncode == 0
    assert not any(process.running() for process in started)


def test_down_spares_a_process_that_got_the_id_of_an_old_one(state: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as innocent:
        try:
            entry = {"name": "x-a", "directory": "x-a", "role": "master", "address": "127.0.0.1:1", "port": 1}
            process = entry | {"pid": innocent.pid, "started": ProcessId.of(innocent.pid).started - 1}
            cluster = {"spec": {"name": "x"}, "processes": [process], "by": [0, 0]}
            state.parent.mkdir(parents=True)
            state.write_text(json.dumps({"clusters": [cluster]}))
            assert "ended" in sandbox("status").stdout
            assert "ended" in sandbox("kill", "x").stdout
            assert sandbox("down").returncode == 0
            assert innocent.poll() is None
        finally:
            innocent.kill()


async def test_down_ends_the_others_when_one_cannot_be_ended(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    async def end(self: State, name: str) -> None:
        if name == "x":
            raise SandboxError("x does not end")
        ended.append(name)

    monkeypatch.setattr(State, "read", lambda self: {"x": None, "y": None})
    monkeypatch.setattr(State, "end", end)
    with pytest.raises(SandboxError, match="x does not end"):
        await commands._down(Output.TABLE)
    assert ended == ["y"]


def test_an_up_that_fails_leaves_nothing(state: Path) -> None:
    (state.parent / "clusters").mkdir(parents=True)
    (state.parent / "clusters" / "south").write_text("in the way of its directory")
    result = sandbox("up", "--clusters", "north,south", "--version", "4.9.7")
    assert result.returncode == 3, result.stderr
    begun, *steps, failed = result.stderr.splitlines()
    assert begun == "Starting north and south …"
    assert all(" s  " in step for step in steps)
    assert "south" in failed
    assert json.loads(state.read_text()) == {"clusters": []}


def test_a_wrong_version_is_one_line(state: Path) -> None:
    result = sandbox("up", "--version", "5.0.0")
    assert result.returncode == 78
    assert result.stderr == "version '5.0.0' is not in the sandbox: use one of 4.9.7, 5.1.4, 5.3.3, 5.5.0\n"
    result = sandbox("up", "--version", "4.9.7", "--ha", "controller")
    assert result.returncode == 78
    assert result.stderr == "RocketMQ 4.9.7 has no controller: ha controller works with 5.3.3 and 5.5.0\n"
    assert not state.exists()


@pytest.mark.parametrize(
    "command",
    [
        *(["topic", "orders"], ["topics"], ["produce", "orders"], ["consume", "orders"]),
        *(["kill", "east"], ["start", "east"]),
    ],
)
def test_messages_without_clusters(state: Path, command: list[str]) -> None:
    result = sandbox(*command)
    assert result.returncode == 3
    assert result.stderr == "no clusters are up: start some with `replicator sandbox up`\n"
    assert not state.exists()


def test_following_has_no_end_to_print_json_at(state: Path) -> None:
    result = sandbox("consume", "orders", "--follow", "-o", "json")
    assert result.returncode == 78
    assert "--follow never ends" in result.stderr
    assert not state.exists()
