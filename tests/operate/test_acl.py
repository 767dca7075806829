"""What `replicator acl` is given: flags, then the environment, then the file. And when it asks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from acl_sync import AclOptions, AclPlan, Applied
from acl_sync.model import Dialect
from acl_sync.plan import Action, Verb
from replicator.cli import app
from replicator.client.cluster import Topology
from replicator.errors import ConfigError, StartupError
from replicator.operate import acl
from replicator.settings import ClusterSettings
from replicator.state import state_file

FILE = """
source = "east:9876"
target = "west:9876"
acl = { accounts = ["app.*"], exclude_accounts = ["root"], admins = true, adopt = true, source_dir = "conf" }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the settings of a route."""
    monkeypatch.setattr(acl, "configure", lambda *, level: None)
    file = tmp_path / "route.toml"
    file.write_text(FILE)
    return file


def test_the_commands_have_their_names() -> None:
    assert [command.callback.__name__ for command in acl.app.registered_commands if command.callback] == [
        *("plan", "apply", "status")
    ]


def test_settings_of_the_route_hold(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account that is excluded there is excluded here."""
    monkeypatch.setenv("REPLICATOR_SYNC_DELETES", "true")
    monkeypatch.setenv("REPLICATOR_SOURCE__ACCESS_KEY", "me")
    monkeypatch.setenv("REPLICATOR_SOURCE__SECRET_KEY", "mine")
    assert acl._wanted({}, file).options == AclOptions(
        include=("app.*",),
        exclude=("root",),
        own=frozenset({"me"}),
        admins=True,
        deletes=True,
        adopt=True,
        source_dir=Path("conf"),
    )


def test_flags_win(file: Path) -> None:
    flags = {"accounts": "x,y", "exclude_accounts": "z", "admins": False, "adopt": False, "source_dir": "d"}
    given = acl._wanted({"acl": flags}, file)
    assert given.options == AclOptions(include=("x", "y"), exclude=("z",), source_dir=Path("d"))


def test_without_any_all_accounts_are_synced(file: Path) -> None:
    clusters = {"source": {"namesrv": "east:9876"}, "target": {"namesrv": "west:9876"}}
    assert acl._wanted(clusters, None).options == AclOptions()
    with pytest.raises(ConfigError, match="invalid regular expression"):
        acl._wanted({"acl": {"exclude_accounts": "["}}, file)


@pytest.mark.parametrize(
    ("terminal", "reply", "code", "applied"),
    [(True, "y\n", 0, True), (True, "n\n", 5, False), (True, "", 5, False), (False, "y\n", 5, False)],
)
def test_the_first_run_asks_on_a_terminal_only(
    file: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool, reply: str, code: int, applied: bool
) -> None:
    """Whoever declines, or cannot be asked, is told by the exit code that nothing was changed."""
    action = Action(broker="west-a", dialect=Dialect.ACL2, verb=Verb.CREATE, account="app")
    made = AclPlan(source=Dialect.ACL1, targets={"west-a": Dialect.ACL2}, actions=(action,))
    runs: list[bool] = []

    async def run(
        _wanted: object, *, apply: bool, agreed: AclPlan | None = None
    ) -> tuple[AclPlan, list[Applied], dict[str, object]]:
        assert agreed is (made if apply else None)
        runs.append(apply)
        return made, [Applied(action, "")] if apply else [], {}

    monkeypatch.setattr(acl, "_run", run)
    monkeypatch.setattr(acl, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: terminal)))
    given = ["acl", "apply", "--config", str(file), "--store-path", str(file.parent / "store")]
    ended = CliRunner().invoke(app, given, input=reply)
    assert (ended.exit_code, runs) == (code, [False, True] if applied else [False])
    assert ("Apply this plan?" in ended.stdout) is terminal
    assert ("give --yes" in ended.stderr) is not terminal, "who was asked has said no"
    assert ("Nothing was changed" in ended.stderr) is not applied
    assert "create" in ended.stdout


class Syncer:
    """Makes one account at each target, and says what was kept of the last run."""

    plan_now: AclPlan
    known: list[object]

    def __init__(self, _source: object, _target: object, _options: object, *, owned: object) -> None:
        self.known.append(owned)
        self.owned = {"west-a": {"accounts": {"app": "created"}, "white": []}}

    async def plan(self) -> AclPlan:
        return self.plan_now

    def claim(self, _plan: AclPlan) -> bool:
        return True

    async def apply(self, _plan: AclPlan) -> list[Applied]:
        return []


@pytest.fixture
def syncer(monkeypatch: pytest.MonkeyPatch) -> type[Syncer]:
    """Clusters are called as the host of their name server."""

    def cluster(settings: ClusterSettings) -> SimpleNamespace:
        async def refresh() -> Topology:
            return Topology(settings.namesrv[0].partition(":")[0], {})

        async def close() -> None:
            return None

        return SimpleNamespace(refresh=refresh, close=close)

    monkeypatch.setattr(acl, "cluster_of", cluster)
    monkeypatch.setattr(acl, "AclSyncer", Syncer)
    Syncer.plan_now, Syncer.known = planned("app"), []
    return Syncer


def planned(account: str) -> AclPlan:
    action = Action(broker="west-a", dialect=Dialect.ACL2, verb=Verb.CREATE, account=account)
    return AclPlan(source=Dialect.ACL1, targets={"west-a": Dialect.ACL2}, actions=(action,))


async def test_what_is_ours_is_of_two_clusters(tmp_path: Path, syncer: type[Syncer]) -> None:
    """Brokers of another target may be called the same, and their accounts are not ours."""
    sides = {"source": {"namesrv": "east:1"}, "target": {"namesrv": "west:1"}, "store_path": str(tmp_path)}
    for _ in range(2):
        await acl._run(acl._wanted(sides, None), apply=True)
    assert syncer.known == [None, {"west-a": {"accounts": {"app": "created"}, "white": []}}]
    for side, field in (("target", "target_id"), ("source", "source_id")):
        with pytest.raises(StartupError, match=f"{field} '(east|west)', this is 'north'"):
            await acl._run(acl._wanted(sides | {side: {"namesrv": "north:1"}}, None), apply=True)


@pytest.mark.parametrize("content", [[1], {"source_id": 5}, {"brokers": ["west-a"]}])
async def test_what_is_kept_is_refused_where_it_is_something_else(
    tmp_path: Path, syncer: type[Syncer], content: object
) -> None:
    """With the right checksum, as another program or a newer version might have written it."""
    state_file.write(tmp_path / "acl.json", content)
    sides = {"source": {"namesrv": "east:1"}, "target": {"namesrv": "west:1"}, "store_path": str(tmp_path)}
    for apply in (False, True):
        with pytest.raises(StartupError, match=r"acl\.json is not what this command keeps of accounts"):
            await acl._run(acl._wanted(sides, None), apply=apply)
    assert syncer.known == []


async def test_another_plan_than_that_agreed_to_is_not_applied(tmp_path: Path, syncer: type[Syncer]) -> None:
    sides = {"source": {"namesrv": "east:1"}, "target": {"namesrv": "west:1"}, "store_path": str(tmp_path)}
    agreed, _, _ = await acl._run(acl._wanted(sides, None), apply=False)
    syncer.plan_now = planned("boss")
    with pytest.raises(StartupError, match="the plan is another one by now"):
        await acl._run(acl._wanted(sides, None), apply=True, agreed=agreed)
    assert not (tmp_path / "acl.json").exists()
