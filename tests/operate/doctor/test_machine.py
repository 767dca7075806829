"""What a worker needs of its machine; nothing is written there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from replicator.operate.doctor.finding import Level
from replicator.operate.doctor.machine import examine_machine, judge_kept
from replicator.routing.options import Identity
from replicator.sandbox import tls
from replicator.settings import Settings, load
from replicator.settings.secret_file import write_secret
from replicator.state import state_file
from replicator.state.store import Store
from tests.support.packages import install_plain


def settings(tmp_path: Path, **more: object) -> Settings:
    given = {"source": {"namesrv": "a:1"}, "target": {"namesrv": "b:1"}, "store_path": str(tmp_path / "s")} | more
    return load(given, file=None)


def found(given: Settings) -> dict[str, tuple[Level, str]]:
    return {each.subject: (each.level, each.message) for each in examine_machine(given)}


def test_a_machine_that_has_all(tmp_path: Path) -> None:
    write_secret(tmp_path / "secret")
    told = found(settings(tmp_path, worker_group_secret_file=str(tmp_path / "secret")))
    assert {level for level, _ in told.values()} == {Level.OK}
    assert [*tmp_path.iterdir()] == [tmp_path / "secret"]


def test_the_place_of_the_state(tmp_path: Path) -> None:
    """In use by a worker; in the way of it a file; no room."""
    given = settings(tmp_path)
    store = Store(tmp_path / "s")
    assert "is used by a worker" in found(given)["store_path"][1]
    store.close()
    assert "can be written" in found(given)["store_path"][1]
    (tmp_path / "file").write_text("in the way")
    assert found(settings(tmp_path, store_path=str(tmp_path / "file" / "s")))["store_path"][0] is Level.ERROR


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 5 * 2**20}))
    assert found(settings(tmp_path))["store_path"] == (Level.WARNING, f"{tmp_path / 's'} has 5 MiB left")


def test_a_place_that_may_not_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a directory of another user's, as with systemd's DynamicUser; all else is checked all the same."""
    stat = Path.stat

    def denied(self: Path, **more: Any) -> os.stat_result:
        if self.is_relative_to(tmp_path / "private"):
            raise PermissionError(13, "Permission denied", str(self))
        return stat(self, **more)

    monkeypatch.setattr(Path, "stat", denied)
    told = found(settings(tmp_path, store_path=str(tmp_path / "private" / "s"), transforms=["none"]))
    level, message = told["store_path"]
    assert (level, "Permission denied" in message) == (Level.NOT_CHECKED, True)
    assert "transforms" in told


def test_what_ends_a_start(tmp_path: Path) -> None:
    """It is found as a worker finds it, and told with the setting and a way out."""
    for name in ("cert", "key"):
        (tmp_path / name).write_text("no PEM")
    files = {"cert_file": str(tmp_path / "cert"), "key_file": str(tmp_path / "key")}
    rest = {"token_file": str(tmp_path / "none"), "tls": files}
    problems = {
        each.subject: each
        for each in examine_machine(settings(tmp_path, assignment="bogus", rest=rest))
        if each.level is Level.ERROR
    }
    assert {subject: each.message.partition(" = ")[0] for subject, each in problems.items()} == {
        "assignment": "assignment",
        "rest tokens": "rest.token_file",
        "rest.tls": "rest.tls.cert_file",
    }
    assert all(each.advice for each in problems.values())


def test_tls_of_rest(tmp_path: Path) -> None:
    files = tls.make(tmp_path / "tls", client_auth=True)
    given = {"cert_file": files.client_cert, "key_file": files.client_key, "ca_file": files.ca}
    told = found(settings(tmp_path, rest={"tls": {name: str(file) for name, file in given.items()}}))
    assert told["rest.tls"][0] is Level.OK


def test_secrets_and_transforms(tmp_path: Path) -> None:
    """One line each, and no secret in any."""
    (tmp_path / "readable").write_text("a secret for everybody")
    (tmp_path / "readable").chmod(0o644)
    account = {"namesrv": "a:1", "access_key": "me", "secret_key_file": str(tmp_path / "readable")}
    told = found(
        settings(tmp_path, source=account, transforms=["none"], worker_group_secret_file=str(tmp_path / "readable"))
    )
    for subject in ("source.secret_key_file", "worker_group_secret_file", "transforms"):
        assert told[subject][0] is Level.ERROR
    assert "a secret for everybody" not in str(told)


def test_a_transform_that_takes_no_waiting_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way out is in the message: nothing is to be installed."""
    install_plain(tmp_path / "site", "transforms_to_examine")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert "transforms" not in found(settings(tmp_path, transforms=["plain"]))
    level, told = found(settings(tmp_path, transforms=["plain"], sync=["pending"]))["transforms"]
    assert level is Level.ERROR
    assert "leave pending out of sync" in told


def test_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said only where it is wanted."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "Spark" not in found(settings(tmp_path))
    assert found(settings(tmp_path, engine="spark"))["Spark"] == (Level.ERROR, "PySpark is not installed")


def test_whose_state_it_is(tmp_path: Path) -> None:
    """Files of two other clusters are refused at a start; nothing is set aside here."""

    def kept(source: str) -> list[tuple[Level, str]]:
        return [(each.level, each.message) for each in judge_kept(tmp_path, Identity(source, "west"), "g")]

    assert kept("east") == []
    state_file.write(tmp_path / "identity.json", {"source_id": "east", "target_id": "west"})
    assert kept("east") == [(Level.OK, "its state is of these two clusters and this worker group")]
    state_file.write(tmp_path / "identity.json", {"source_id": "east", "target_id": "west", "group": "other"})
    ((level, message),) = kept("east")
    assert (level, "worker_group 'other', this is 'g'" in message) == (Level.ERROR, True)
    ((level, message),) = kept("north")
    assert level is Level.ERROR
    assert "the store was written for source_id 'east', this is 'north'" in message
    (tmp_path / "identity.json").write_text("{}")
    ((level, message),) = kept("east")
    assert level is Level.NOT_CHECKED
    assert message.endswith("it is not a state file")
    assert [path.name for path in tmp_path.iterdir()] == ["identity.json"]
