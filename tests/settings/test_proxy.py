"""What a worker may ask of a source of which only a Proxy is reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replicator.errors import ConfigError
from replicator.settings import RouteSettings, load
from replicator.settings.proxy import mistakes_with_proxy, with_proxy_defaults


def given(**values: Any) -> dict[str, Any]:
    source = {"namesrv": "s:8080", "proxy": "true"}
    return {"source": source, "target": {"namesrv": "t:1"}, "coordination": "target", "topics": "orders", **values}


def test_named_topics_can_be_copied() -> None:
    """By default nothing else is synced, but the offsets of groups that are named."""
    assert load(given(), file=None).sync == []
    assert load(given(sync_groups="billing,mail"), file=None).sync == ["offsets"]
    assert load(given(sync_groups="billing,m.*"), file=None).sync == []
    assert load(given(sync="none", sync_groups="billing"), file=None).sync == []
    assert load(given(transforms="mask"), file=None).sync == []
    assert load(given(standalone=True, coordination="source"), file=None).source.proxy


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"topics": "orders,pay.*"}, "topics = 'pay.*' is a pattern"),
        ({"topics": []}, "it selects nothing"),
        ({"sync": "topics,groups,offsets"}, "sync has topics, groups, which a Proxy does not tell of"),
        ({"sync": "offsets"}, "sync has offsets without groups"),
        ({"coordination": "source"}, "set coordination = target"),
        ({"sql": "a > 1"}, "use tags"),
        ({"sync_groups": "g", "dlq_topics": True}, "retry_topics and dlq_topics need the list of groups"),
        ({"engine": "spark"}, "engine=spark and backfill are not possible"),
        ({"spark_master": "local"}, "spark_master is set"),
        ({"target": {"namesrv": "t:1", "proxy": True}}, "target.proxy is set, but a Proxy creates no topics"),
        ({"source": {"namesrv": "s:1", "proxy": True, "address_map": "a=b"}}, "proxy and address_map are both set"),
    ],
)
def test_what_a_proxy_does_not_serve_is_refused_by_name(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(given(**values), file=None)
    assert words in str(caught.value)


def test_the_default_pattern_is_refused(tmp_path: Path) -> None:
    """Every mistake is told at once."""
    without = given(coordination="source")
    del without["topics"]
    with pytest.raises(ConfigError, match=r"topics = '\.\*' is a pattern.*set coordination = target"):
        load(without, file=None)


def test_of_a_connector() -> None:
    """Over REST, too."""
    assert with_proxy_defaults({"topics": "a"})["sync"] == []
    assert with_proxy_defaults({"sync_groups": ["g"]})["sync"] == ["offsets"]
    assert with_proxy_defaults({"sync_groups": 3})["sync"] == []
    assert with_proxy_defaults({"sync": "topics"}) == {"sync": "topics"}
    assert list(mistakes_with_proxy(RouteSettings(topics=["a"], sync=[]))) == []
    assert len(list(mistakes_with_proxy(RouteSettings()))) == 2
