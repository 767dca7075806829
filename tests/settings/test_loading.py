"""Variables of the environment: what is not a setting is reported, unless Kubernetes has set it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replicator.errors import ConfigError
from replicator.settings import ENV_PREFIX, load

BOTH = {"source": {"namesrv": "s:1"}, "target": {"namesrv": "t:1"}}


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        monkeypatch.delenv(name)


def test_what_kubernetes_says_of_its_services_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells each container of all Services of the namespace, and some are called as this program is."""
    for name, value in {
        "PORT": "tcp://10.0.0.7:8082",
        "SERVICE_HOST": "10.0.0.7",
        "REPLICATOR_SERVICE_HOST": "10.0.0.7",
        "REPLICATOR_SERVICE_PORT": "8082",
        "REPLICATOR_SERVICE_PORT_REST": "8082",
        "REPLICATOR_SERVICE_PORT_SPARK_UI": "4040",
        "REST_PORT": "tcp://10.0.0.7:8082",
        "REST_PORT_8082_TCP": "tcp://10.0.0.7:8082",
        "REST_PORT_8082_TCP_PROTO": "tcp",
        "REST_PORT_8082_TCP_PORT": "8082",
        "REST_PORT_8082_TCP_ADDR": "10.0.0.7",
        "DNS_PORT_53_UDP": "udp://10.0.0.7:53",
    }.items():
        monkeypatch.setenv(f"REPLICATOR_{name}", value)
    assert load(BOTH, file=None).rest.port == 8082


@pytest.mark.parametrize(
    ("name", "right"),
    [("REST_PORT", "REST__PORT"), ("REST__SERVICE_PORT", "REST__PORT"), ("REST__SERVICE_HOST", "REST__HOST")],
)
def test_a_mistyped_setting_is_none_of_kubernetes_variables(
    name: str, right: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it ends as they do: its value is no URL, or it is nested."""
    monkeypatch.setenv(f"REPLICATOR_{name}", "8082")
    with pytest.raises(ConfigError) as caught:
        load(BOTH, file=None)
    assert str(caught.value) == (
        f"the environment has REPLICATOR_{name}, which is not a setting: did you mean REPLICATOR_{right}?"
    )


def test_what_nobody_has_given_is_as_the_caller_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the environment, value by value."""
    monkeypatch.setenv("REPLICATOR_SOURCE__ID", "west")
    settings = load({"target": "t:1"}, file=None, defaults={"source": {"namesrv": "s:1", "id": "east"}})
    assert (settings.source.namesrv, settings.source.id) == (["s:1"], "west")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"rate_messages = {'9' * 5000}", "not valid TOML"),
        (f"rate_messages = 0x{'f' * 5000}", "an integer of more than 64 bits"),
        (f"[source]\nnamesrv = [0x{'f' * 17}]", "an integer of more than 64 bits"),
        (f"topics = {'[' * 3000}{']' * 3000}", "not valid TOML"),
        ("topics = 'a{99999999999999999999}'", "counted repeats"),
        ("acl.accounts = 'a{99999999999999999999}'", "counted repeats"),
        ("rest.token_file = '\\u0000'".replace("'", '"'), "rest.token_file"),
        ('[acl]\nsource_dir = "\\u0000"', "acl.source_dir"),
        ('[source]\nnamesrv = "a:1"\naccess_key = "a"\nsecret_key_file = "\\u0000"', "source.secret_key_file"),
    ],
)
def test_a_file_that_nothing_takes_is_refused_in_words(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=reason) as caught:
        load({"source": {"namesrv": "a:1"}, "target": {"namesrv": "b:1"}}, file=file)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o644, 0o640])
@pytest.mark.parametrize("secret", ['rest.token = "canary"', '[source]\nsecret_key = "canary"', ""])
def test_a_file_with_a_secret_is_its_owners_alone(secret: str, mode: int, tmp_path: Path) -> None:
    """As a file of a secret alone; one without any may be read by all."""
    file = tmp_path / "replicator.toml"
    file.write_text(secret)
    file.chmod(mode)
    given = {"source": {"namesrv": "s:1", "access_key": "a"}, "target": {"namesrv": "t:1"}}
    if not secret or "token" in secret:
        del given["source"]["access_key"]
    if secret and mode & 0o077:
        with pytest.raises(ConfigError) as caught:
            load(given, file=file)
        name = "rest.token" if "token" in secret else "source.secret_key"
        assert str(caught.value) == f"config = {str(file)!r} has {name} and can be read by others: chmod 600 it"
    else:
        load(given, file=file)
