"""What to give instead of a value that does not fit: in the words of this program, not of a library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from replicator.errors import ConfigError
from replicator.settings import load
from replicator.settings.mistakes import way_out

BASE: dict[str, Any] = {"source": {"namesrv": "s:1"}, "target": {"namesrv": "t:1"}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sync": "topics,foo"}, "sync = 'foo': give topics, groups, offsets, acl or pending"),
        ({"on_gap": "yaml"}, "on_gap = 'yaml': give fail or skip"),
        ({"sync_topics_interval": "x"}, "sync_topics_interval = 'x': give a number"),
        ({"session_timeout": "nan"}, "session_timeout = 'nan': give a finite number"),
        ({"session_timeout": 1e99}, "session_timeout = 1e+99: give at most 31536000"),
        ({"workers": "x"}, "workers = 'x': give a whole number"),
        ({"workers": 1.5}, "workers = 1.5: give a whole number"),
        ({"workers": 0}, "workers = 0: give at least 1"),
        ({"audit_share": 0}, "audit_share = 0: give more than 0"),
        ({"audit_share": "3"}, "audit_share = '3': give at most 1"),
        ({"standalone": "yaml"}, "standalone = 'yaml': give true or false"),
        ({"standalone": 3}, "standalone = 3: give true or false"),
        ({"sql": 3}, "sql = 3: give a text"),
        ({"store_path": 5}, "store_path = 5: give a path"),
        ({"log_level": "foo"}, "log_level = 'foo': give debug, info, warning or error"),
        ({"rest": "x"}, "rest = 'x': give a table of settings"),
        ({"rest": {"port": "x"}}, "rest.port = 'x': give a whole number"),
        ({"source": {"namesrv": "s:1", "socks": 5}}, "source.socks = 5: give a table of settings"),
        ({"source": 3}, "source = 3: give a table of settings"),
        ({"source": {"namesrv": "s:1", "cluster": ""}}, "source.cluster = '': give a text that is not empty"),
        ({"source": {"namesrv": ""}}, "source.namesrv = '': give a value that is not empty"),
        ({"source": {"namesrv": "s:1", "secret_key": ""}}, "source.secret_key: give a value that is not empty"),
    ],
)
def test_a_value_that_does_not_fit(given: dict[str, Any], said: str) -> None:
    """Field, value, way out."""
    with pytest.raises(ConfigError) as caught:
        load(BASE | given, file=None)
    assert str(caught.value) == said


class Taken(BaseModel):
    """What no setting has now, and a setting of a plugin may have."""

    path: Path = Path()
    long: Annotated[str, Field(max_length=3)] = ""
    short: Annotated[str, Field(min_length=2)] = "ab"
    few: Annotated[list[int], Field(max_length=1)] = []
    below: Annotated[int, Field(lt=3)] = 0
    one: Literal["a"] = "a"
    number: Annotated[float, Field(multiple_of=2)] = 2


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("long", "1234", "give up to 3 characters"),
        ("short", "1", "give at least 2 characters"),
        ("few", [1, 2], "give up to 1"),
        ("few", 3, "give a list"),
        ("below", 3, "give less than 3"),
        ("one", "b", "give a"),
        ("path", [], "give a path"),
        ("number", 3, "Input should be a multiple of 2"),
    ],
)
def test_what_plugins_may_ask_for(name: str, value: object, said: str) -> None:
    """What there are no words for is said in those of the library."""
    with pytest.raises(ValidationError) as caught:
        Taken.model_validate({name: value})
    assert [way_out(problem) for problem in caught.value.errors()] == [said]
