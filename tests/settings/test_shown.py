"""A line about a mistake has the value, but nothing that may be a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replicator.settings.shown import without_user_info
from tests.support.settings import flags, mistakes

CANARY = "canary-5e1f"


@pytest.mark.parametrize(
    "given",
    [
        {"source__secret_key": CANARY, "source__secret_key_file": "x"},
        {"source__secret_key": [CANARY]},
        {"source__secret_key": {"x": CANARY}},
        {"source__secret_key": CANARY, "source__tls__mode": "on"},
        {"source__secret_key": CANARY, "source__namesrv": "x"},
        {"source__secret_key": CANARY, "source__nonsense": 1},
        {"source__secretkey": CANARY},
        {"source__secret_key": CANARY, "rest": {"port": "x"}},
        {"rest": {"token": [CANARY]}},
        {"rest": [{"token": CANARY}]},
        {"rest": json.dumps({"token": CANARY})},
        {"acl": [{"password": CANARY}]},
        {"source__socks__address": f"socks5://u:{CANARY}@h:1080"},
        {"source__socks__address": f"u:{CANARY}@h:1080"},
        {"rest": {"host": f"http://u:{CANARY}@h"}},
        {"worker_id": f"http://u:{CANARY}@h/"},
        *(
            {"target__namesrv": namesrv}
            for namesrv in (
                f"http://u:{CANARY}@h/rocketmq/nsaddr",
                f"http://u:a/{CANARY}' {CANARY}@{CANARY}@h/rocketmq/nsaddr",
                f"u:{CANARY}@h:9876",
                json.dumps({"secret_key": CANARY, "namesrv": "a:1"}),
                json.dumps([CANARY]),
                f" {{ namesrv = 'a:1', secret_key = {CANARY} }}",
                f"a:1;secret_key={CANARY}",
                [{"namesrv": "a:1", "secret_key": CANARY}],
            )
        ),
    ],
)
def test_no_mistake_shows_the_secret(given: dict[str, Any]) -> None:
    """Whatever is wrong beside it, or with it."""
    told = mistakes(flags(source__access_key="account", **given))
    assert told
    assert CANARY not in "\n".join(told)


def test_a_cluster_as_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not an address, and the line says what to do without showing what it has."""
    monkeypatch.setenv("REPLICATOR_SOURCE", json.dumps({"secret_key": CANARY, "namesrv": "a:1"}))
    (line,) = mistakes({"target": {"namesrv": "t:1"}})
    assert line.startswith("source.namesrv: give addresses alone")
    assert CANARY not in line


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"source__namesrv": f"http://u:{CANARY}@east/nsaddr"}, "'http://…@east/nsaddr' is not"),
        ({"source__namesrv": "[::1]"}, "'[::1]' is not host:port"),
        ({"source__socks__address": f"socks5://u:{CANARY}@east:1080"}, "'socks5://…@east:1080' is not"),
        ({"source__socks__address": f"u:{CANARY}@east:1080"}, "'…@east:1080' is not"),
        ({"worker_id": "me @ here"}, "worker_id = 'me @ here'"),
    ],
)
def test_the_rest_of_a_value_is_shown(given: dict[str, Any], word: str) -> None:
    """It tells which one is wrong."""
    (line,) = mistakes(flags(**given))
    assert word in line


def test_a_line_with_several_urls() -> None:
    """What is not a user and password stays as it is."""
    line = "at http://a:1/x nobody answers, at s3://me:p@ss@bucket/x neither; ask me@here"
    assert without_user_info(line) == "at http://a:1/x nobody answers, at s3://…@bucket/x neither; ask me@here"
