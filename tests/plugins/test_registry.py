"""Plugins are found by their entry points, also in a process of its own; configurations are checked whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.errors import ConfigError
from replicator.plugins.installed import CONNECTORS, installed
from replicator.plugins.limits import ConnectorLimits
from replicator.plugins.registry import configure, load

_MODULE = """
from pydantic import BaseModel
from replicator.plugins import SinkConnector

class Config(BaseModel):
    topics: list[str]

class Null(SinkConnector[Config]):
    config = Config

    def tasks(self, config):
        return {topic: [topic] for topic in config.topics}

    def task(self, config, name):
        raise NotImplementedError

class Broken(Null):
    def tasks(self, config):
        raise LookupError("no idea")

class Other:
    pass
"""


LIMITS = ConnectorLimits(file_dir=Path("/"))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes `entry` an entry point called `name`, as an installed package does."""
    (tmp_path / "third_party.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "third_party", raising=False)

    def make(name: str, entry: str) -> None:
        info = tmp_path / f"{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[rocketmq_replicator.connectors]\n{name} = {entry}\n")

    return make


def test_a_package_brings_a_connector(install: Callable[[str, str], None]) -> None:
    install("null", "third_party:Null")
    config = configure("null", {"topics": ["a", "b"]}, LIMITS)
    assert (config.type, dict(config.tasks)) == ("SINK", {"a": ("a",), "b": ("b",)})
    assert config.dump() == {"connector.class": "null", "topics": ["a", "b"]}
    assert (
        config == configure("null", {"topics": ["a", "b"]}, LIMITS) != configure("null", {"topics": ["a"]}, LIMITS)
    )


def test_another_process_finds_it(install: Callable[[str, str], None], tmp_path: Path) -> None:
    install("null", "third_party:Null")
    program = "from replicator.plugins.registry import load; print(type(load('null')).__name__)"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "Null\n"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("third_party:Missing", "cannot be loaded \\(AttributeError"),
        ("not_there:Null", "cannot be loaded \\(ModuleNotFoundError"),
        ("third_party:Other", "is not a connector"),
        ("third_party:Broken", "cannot name its tasks: LookupError: no idea"),
    ],
)
def test_a_bad_plugin_is_told(install: Callable[[str, str], None], entry: str, reason: str) -> None:
    install("bad", entry)
    with pytest.raises(ConfigError, match=f"connector.class = 'bad' {reason}"):
        configure("bad", {"topics": ["a"]}, LIMITS)


@pytest.mark.parametrize("task", ["", "a/b", "a b", "caf\udce9", "x" * 201])
def test_a_task_whose_name_cannot_be_kept(install: Callable[[str, str], None], task: str) -> None:
    """Its records could not be written, nor those of any other connector."""
    install("null", "third_party:Null")
    with pytest.raises(ConfigError, match=r"connector.class = 'null' has a task .*: names have up to 200"):
        configure("null", {"topics": [task]}, LIMITS)


def test_what_is_not_installed_is_told_with_what_is() -> None:
    with pytest.raises(ConfigError, match=r"'none' is not installed: there are routing, file-sink, file-source"):
        load("none")
    assert {"file-source", "org.apache.rocketmq.connect.file.FileSinkConnector"} <= installed(CONNECTORS).keys()


def test_all_mistakes_of_a_configuration_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        configure("file-sink", {"filename": "here", "connect.topicnames": "a b,c", "topic": "x"}, LIMITS)
    told = caught.value.message.splitlines()
    assert len(told) == 3
    assert told[0] == "filename = 'here': give an absolute path: workers have different working directories"
    assert told[1].startswith("connect.topicnames = 'a b': a topic's name")
    assert told[2].startswith("topic is not a setting")


def test_topics_may_be_a_comma_list() -> None:
    config = configure("file-sink", {"filename": "/f", "connect.topicnames": "a, b"}, LIMITS)
    assert config.dump()["connect.topicnames"] == ["a", "b"]
    assert (
        configure("file-sink", {k: v for k, v in config.dump().items() if k != "connector.class"}, LIMITS) == config
    )
