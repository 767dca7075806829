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
from replicator.errors import ConfigError
from replicator.operate import acl

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

    async def run(_wanted: object, *, apply: bool) -> tuple[AclPlan, list[Applied], dict[str, object]]:
        runs.append(apply)
        return made, [Applied(action, "")] if apply else [], {}

    monkeypatch.setattr(acl, "_run", run)
    monkeypatch.setattr(acl, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: terminal)))
    given = ["acl", "apply", "--config", str(file), "--store-path", str(file.parent / "store")]
    ended = CliRunner().invoke(app, given, input=reply)
    assert (ended.exit_code, runs) == (code, [False, True] if applied else [False])
    assert ("Apply this plan?" in ended.stdout) is terminal
    assert "create" in ended.stdout
