"""Settings: one name in flags, environment and file; every mistake is named with its way out; no secret shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from replicator.errors import ConfigError
from replicator.settings import ENV_PREFIX, Settings, load, origins, setting_fields
from replicator.settings.clusters import comma_list
from tests.support.settings import flags, mistakes

BASE: dict[str, Any] = {"source": {"namesrv": "s:1"}, "target": {"namesrv": "t:1"}}
CANARY = "canary-5e1f"


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(ENV_PREFIX):
            monkeypatch.delenv(name)


@pytest.fixture
def toml(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "replicator.toml"
        path.write_text(text)
        return path

    return write


def test_two_addresses_are_enough() -> None:
    """All else has a default."""
    settings = load(BASE, file=None)
    assert settings.source.namesrv == ["s:1"]
    assert settings.topics == [".*"]
    assert settings.start_timestamp() == "earliest"


def dig(settings: object, name: str) -> Any:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


#: Dotted name, and values for default, file, environment and flag, the last three as text and as read.
LEVELS: list[tuple[str, Any, tuple[str, Any], tuple[str, Any], tuple[str, Any]]] = [
    ("rate_messages", 0, ("5", 5), ("6", 6), ("7", 7)),
    ("topics", [".*"], ('["a", "b{1,2}"]', ["a", "b{1,2}"]), ("d,e", ["d", "e"]), ("f", ["f"])),
    ("rate_bytes", 0, ('"1 KiB"', 1024), ("2KiB", 2048), ("3 MiB", 3 * 1024**2)),
    ("source.id", None, ('"x"', "x"), ("y", "y"), ("z", "z")),
    ("source.tls.mode", "off", ('"required"', "required"), ("verify", "verify"), ("off", "off")),
    ("target.cluster", None, ('"x"', "x"), ("y", "y"), ("z", "z")),
    ("target.namesrv", None, ('["h:1", "h:2"]', ["h:1", "h:2"]), ("i:1;i:2", ["i:1", "i:2"]), ("j:1", ["j:1"])),
]


@pytest.mark.parametrize(("name", "default", "file", "environment", "flag"), LEVELS, ids=[row[0] for row in LEVELS])
def test_flag_goes_before_environment_before_file_before_default(
    name: str,
    default: Any,
    file: tuple[str, Any],
    environment: tuple[str, Any],
    flag: tuple[str, Any],
    toml: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For nested names too; what one level says of a cluster does not hide what others say of it."""
    clusters = "source.namesrv = 's:1'\n" + ("" if name == "target.namesrv" else "target.namesrv = 't:1'\n")
    if default is not None or name != "target.namesrv":
        assert dig(load({}, file=toml(clusters)), name) == default
        assert origins({}, file=toml(clusters)).get(name) is None
    path = toml(f"{clusters}{name} = {file[0]}\n")
    assert dig(load({}, file=path), name) == file[1]
    assert origins({}, file=path)[name] == str(path)
    monkeypatch.setenv(ENV_PREFIX + name.replace(".", "__").upper(), environment[0])
    assert dig(load({}, file=path), name) == environment[1]
    assert origins({}, file=path)[name] == "environment"
    given: dict[str, Any] = {}
    into = given
    *parents, last = name.split(".")
    for part in parents:
        into = into.setdefault(part, {})
    into[last] = flag[0]
    settings = load(given, file=path)
    assert dig(settings, name) == flag[1]
    assert settings.source.namesrv == ["s:1"]
    assert origins(given, file=path)[name] == "flag"


@pytest.mark.parametrize("short", [True, False])
def test_a_cluster_may_be_its_name_servers_alone(
    short: bool, toml: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the file and in the environment, beside nested values from elsewhere."""
    path = toml("source = 'a:1,b:2'\n[target]\nnamesrv = ['c:1']\nid = 'west'\n")
    monkeypatch.setenv("REPLICATOR_SOURCE__ID", "east")
    if short:
        monkeypatch.setenv("REPLICATOR_TARGET", "d:1")
    settings = load({}, file=path)
    assert (settings.source.namesrv, settings.source.id) == (["a:1", "b:2"], "east")
    assert (settings.target.namesrv, settings.target.id) == (["d:1" if short else "c:1"], "west")


def test_names_in_the_environment_may_be_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """As some systems write them."""
    monkeypatch.setenv("replicator_rate_messages", "5")
    assert load(BASE, file=None).rate_messages == 5


#: What is given, and words that the one line about it has: the field, the value, the way out.
WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"source__namesrv": "host"}, ["source.namesrv", "'host'", "9876"]),
    ({"source__namesrv": "host:0"}, ["source.namesrv", "'host:0'", "host:port"]),
    ({"source__namesrv": "host:99999"}, ["source.namesrv", "'host:99999'", "host:port"]),
    ({"source__namesrv": "a:1,:2"}, ["source.namesrv", "':2'", "host:port"]),
    ({"target__namesrv": ""}, ["target.namesrv", "not empty"]),
    ({"source__id": "a/b"}, ["source.id", "'a/b'", "letters"]),
    ({"source__id": "x" * 101}, ["source.id", "up to 100"]),
    ({"source__access_key": "k"}, ["source", "access_key", "secret", "both or neither"]),
    ({"source__tls__mode": "on"}, ["source.tls.mode", "'on'", "off, required or verify"]),
    ({"source__tls__cert_file": "c", "source__tls__mode": "verify"}, ["source.tls", "key_file", "both or neither"]),
    ({"target__tls__ca_file": "c"}, ["target.tls", "mode is off", "verify"]),
    ({"rename": "fixed"}, ["rename", "'fixed'", "{topic}"]),
    ({"rename": "{topic}{other}"}, ["rename", "{other}", "only {topic}, {source} and {target}"]),
    ({"rename": "{topic}{}"}, ["rename", "only {topic}"]),
    ({"rename": "{topic"}, ["rename", "'{topic'", "only {topic}"]),
    ({"rename": "{topic.x}"}, ["rename", "only {topic}"]),
    ({"rename": "{topic}{source[x]}"}, ["rename", "only {topic}"]),
    ({"rename": "{topic!r}"}, ["rename", "only {topic}"]),
    ({"rename": "{topic:>5}"}, ["rename", "only {topic}"]),
    ({"rename": "{{topic}}"}, ["rename", "without {topic}"]),
    ({"rename": "{topic}.x"}, ["rename", "letters, digits"]),
    ({"start_from": "yesterday"}, ["start_from", "'yesterday'", "ISO 8601"]),
    ({"tags": "a", "sql": "b = 1"}, ["tags and sql", "keep one"]),
    ({"backfill": "perhaps"}, ["backfill", "'perhaps'", "true or false"]),
    ({"backfill": "true", "standalone": "true"}, ["backfill and standalone", "replicator backfill"]),
    ({"backfill": "true", "transforms": "x"}, ["backfill and transforms", "as they are"]),
    ({"topics": "a,b,c", "exclude_topics": "c,b"}, ["topics has 'b'", "exclude_topics 'b'"]),
    ({"topics": "orders", "exclude_topics": "or.*"}, ["topics has 'orders'", "exclude_topics 'or.*'"]),
    ({"topics": "or.*", "exclude_topics": ".*"}, ["topics has 'or.*'", "exclude_topics '.*'"]),
    ({"topics": "ok,(x"}, ["topics", "'(x'", "regular expression"]),
    ({"exclude_topics": "*"}, ["exclude_topics", "'*'", "regular expression"]),
    ({"forward": "some"}, ["forward", "'some'", "local or all"]),
    ({"born_timestamp": "x"}, ["born_timestamp", "'x'", "batch or exact"]),
    ({"on_error": "x"}, ["on_error", "'x'", "fail, skip, wait or dead-letter"]),
    ({"on_gap": "x"}, ["on_gap", "'x'", "fail or skip"]),
    ({"rate_messages": "-1"}, ["rate_messages", "'-1'", "at least 0"]),
    ({"rate_messages": "many"}, ["rate_messages", "'many'", "a whole number"]),
    ({"rate_bytes": "5 GB"}, ["rate_bytes", "'5 GB'", "KiB, MiB or GiB"]),
    ({"rate_bytes": -5}, ["rate_bytes", "-5", "at least 0"]),
    ({"batch_messages": "0"}, ["batch_messages", "'0'", "at least 1"]),
    ({"pulls_in_flight": "9999"}, ["pulls_in_flight", "'9999'", "at most 512"]),
    ({"memory_bytes": "1 KiB"}, ["memory_bytes", "1 KiB", "1 MiB"]),
    ({"rest": {"port": "70000"}}, ["rest.port", "'70000'", "65535"]),
    ({"metadata_refresh_interval": "0"}, ["metadata_refresh_interval", "'0'", "0.1"]),
    ({"metadata_refresh_interval": "nan"}, ["metadata_refresh_interval", "'nan'", "finite number"]),
    ({"drain_timeout": "-1"}, ["drain_timeout", "'-1'", "at least 0"]),
    ({"log_level": "loud"}, ["log_level", "'loud'", "debug, info"]),
    ({"ratemessages": "1"}, ["ratemessages is not a setting", "did you mean rate_messages?"]),
    ({"source__tls__ca": "1"}, ["source.tls.ca is not a setting", "did you mean source.tls.ca_file?"]),
    ({"zzzzzz": "1"}, ["zzzzzz is not a setting", "config check"]),
]


@pytest.mark.parametrize(
    ("given", "words"), WRONG, ids=[" ".join(f"{k}={v}" for k, v in row[0].items())[:40] for row in WRONG]
)
def test_each_mistake_has_one_line_with_field_value_and_way_out(given: dict[str, Any], words: list[str]) -> None:
    """And nothing else."""
    (line,) = mistakes(flags(**given))
    for word in words:
        assert word in line


def test_all_mistakes_are_named_at_once() -> None:
    """One a line, missing ones too."""
    lines = mistakes({"source": {"namesrv": "x"}, "on_gap": "x", "rest": {"port": "x"}, "nonsense": 1})
    assert [line.split(" ")[0] for line in sorted(lines)] == [
        "nonsense",
        "on_gap",
        "rest.port",
        "source.namesrv",
        "target",
    ]
    assert any("--target" in line for line in lines)


def test_unknown_variables_of_the_environment_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the closest match; a mistyped name must not be ignored."""
    monkeypatch.setenv("REPLICATOR_TOPIC", "x")
    monkeypatch.setenv("REPLICATOR_SOURCE__TLS__MODUS", "x")
    lines = mistakes(BASE)
    assert lines == [
        f"the environment has REPLICATOR_{wrong}, which is not a setting: did you mean REPLICATOR_{right}?"
        for wrong, right in (("SOURCE__TLS__MODUS", "SOURCE__TLS__MODE"), ("TOPIC", "TOPICS"))
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"source = ", "is not valid TOML"),
        (b"source = 'a:1'\nsource = 'b:1'", "is not valid TOML"),
        (b"\xff\xfe", "is not valid TOML"),
        (b"\xef\xbb\xbfsource = 'a:1'", "begins with a byte order mark: save it as UTF-8 without one"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    """Missing, broken, or no text."""
    path = tmp_path / "replicator.toml"
    if content is not None:
        path.write_bytes(content)
    (line,) = mistakes({}, path)
    assert str(path) in line
    assert words in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("source = 5\ntarget = 't:1'", ["source", "5"]),
        ("source = 's:1'\ntarget = 't:1'\nrate_mesages = 5", ["rate_mesages is not a setting", "rate_messages"]),
        (
            "source = 's:1'\ntarget = 't:1'\ntopics = [1]",
            ["topics: give a list of texts", 'as in ["orders", "payments"]'],
        ),
        (
            "source = 's:1'\ntarget = 't:1'\ntopics = 5",
            ["topics = 5: give a list of texts", "with commas"],
        ),
        ("source = 's:1'\ntarget = 't:1'\ntransforms = true", ["transforms = True: give a list of texts"]),
        ("source = 's:1'\ntarget = 't:1'\nsync = 7", ["sync = 7: give a list of texts"]),
        (
            "source.namesrv = 's:1'\nsource.namsrv = 'x'\ntarget = 't:1'",
            ["source.namsrv is not a setting", "source"],
        ),
    ],
)
def test_mistakes_in_a_file_are_named_as_elsewhere(
    toml: Callable[[str], Path], text: str, words: list[str]
) -> None:
    """Wrong types and unknown keys."""
    (line,) = mistakes({}, toml(text))
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("17", 17), ("17B", 17), ("1 KiB", 1024), ("2mib", 2 * 1024**2), (" 1 GiB ", 1024**3), (5, 5)],
)
def test_sizes(text: object, size: int) -> None:
    """Bytes, or with a unit."""
    assert load(flags(rate_bytes=text), file=None).rate_bytes == size


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("latest", "latest"),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01.5", 1500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:02Z", 2000),
    ],
)
def test_times(text: str, timestamp: object) -> None:
    """In UTC where they name no zone."""
    assert load(flags(start_from=text), file=None).start_timestamp() == timestamp


# Secrets.


def credentials(**more: Any) -> dict[str, Any]:
    return flags(source__access_key="account", **more)


def test_the_secret_is_given_out_and_never_shown() -> None:
    """Not in repr, str, JSON or dump."""
    settings = load(credentials(source__secret_key=CANARY), file=None)
    assert settings.source.secret() == CANARY
    assert isinstance(settings.source.secret_key, SecretStr)
    for shown in (repr(settings), str(settings), settings.model_dump_json(), str(settings.model_dump(mode="json"))):
        assert "account" in shown
        assert CANARY not in shown


def test_a_secret_without_an_account_is_a_mistake() -> None:
    """And the value does not show."""
    (line,) = mistakes(flags(target__secret_key=CANARY))
    assert "both or neither" in line
    assert CANARY not in line


def test_the_secret_from_a_file(tmp_path: Path) -> None:
    """Without the line end that editors add."""
    path = tmp_path / "secret"
    path.write_text(f"{CANARY}\n")
    path.chmod(0o600)
    settings = load(credentials(source__secret_key_file=str(path)), file=None)
    assert settings.source.secret() == CANARY
    path.chmod(0o400)
    assert settings.source.secret() == CANARY
    assert CANARY not in repr(settings)


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(CANARY)
    path.chmod(0o600)
    return path


def test_the_token_from_a_file(secret_file: Path) -> None:
    """As good as one from the environment, on any address; both are one too many, an empty one guards nothing."""
    settings = load(flags(rest={"token_file": str(secret_file), "host": "0.0.0.0"}), file=None)
    assert settings.rest.bearers() == {"admin": CANARY}
    assert CANARY not in repr(settings)
    (both,) = mistakes(flags(rest={"token_file": str(secret_file), "token": CANARY}))
    assert "keep one" in both
    assert CANARY not in both
    assert any("rest.token" in line for line in mistakes(flags(rest={"token": "", "host": "0.0.0.0"})))
    secret_file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"rest\.token_file = .* can be read"):
        settings.rest.bearers()


def test_every_setting_is_described() -> None:
    """In a sentence of its own."""
    described = {name: field.description for name, field in setting_fields()}
    assert all(described.values())
    assert {"source.namesrv", "target.tls.key_file", "log_level"} <= described.keys()
    assert len(described) > len(Settings.model_fields)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b", ["a", "b"]),
        ("orders-[0-9]{1,3},b", ["orders-[0-9]{1,3}", "b"]),
        ("a{2,},b{,3} , c{4}", ["a{2,}", "b{,3}", "c{4}"]),
    ],
)
def test_a_comma_of_a_quantifier_is_part_of_the_expression(text: str, parts: list[str]) -> None:
    assert comma_list(text) == parts
