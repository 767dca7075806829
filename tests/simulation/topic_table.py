"""A simulated broker's topics: the whole table, and changes to it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from replicator.protocol.codes import Response
from replicator.protocol.frame import Frame
from tests.simulation.remoting import Answer
from tests.simulation.store import Store, TopicSettings
from tests.simulation.versions import Version

__all__ = ["change_topic", "topic_table"]

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")


def topic_table(store: Store, version: Version) -> Answer:
    """The answer to request 21."""
    table = {name: _config(name, settings, version) for name, settings in store.topics.items()}
    body = {"dataVersion": {"counter": store.version, "timestamp": 0}, "topicConfigTable": table}
    fields = {"totalTopicNum": str(len(table))} if version.name == "5.5.0" else {}
    return Answer(fields=fields, body=msgspec.json.encode(body))


def _config(name: str, settings: TopicSettings, version: Version) -> dict[str, Any]:
    config: dict[str, Any] = {
        "order": settings.order,
        "perm": settings.perm,
        "readQueueNums": settings.read_queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": settings.sys_flag,
        "writeQueueNums": settings.write_queues,
    }
    return config if version.is_old else {"attributes": settings.attributes} | config


def change_topic(store: Store, version: Version, asked: Frame) -> Answer:
    """Carries out request 17."""
    fields = {name: value or "" for name, value in asked.fields.items()}
    name = fields["topic"]
    if not _NAME.fullmatch(name):
        return Answer(version.no_queue, version.bad_name(name))
    settings = TopicSettings(
        int(fields["readQueueNums"]),
        int(fields["writeQueueNums"]),
        int(fields["perm"]),
        int(fields["topicSysFlag"]),
        fields["order"] == "true",
    )
    store.change_topic(name, settings)
    return Answer(Response.SUCCESS, "not set any response code")


def described(name: str, settings: TopicSettings, version: Version) -> str:
    """A topic in the words of a broker's remark."""
    perm = ("R" if settings.perm & 4 else "-") + ("W" if settings.perm & 2 else "-") + "-"
    attributes = "" if version.is_old else ", attributes={}"
    return (
        f"TopicConfig [topicName={name}, readQueueNums={settings.read_queues},"
        f" writeQueueNums={settings.write_queues}, perm={perm}, topicFilterType=SINGLE_TAG,"
        f" topicSysFlag={settings.sys_flag}, order={str(settings.order).lower()}{attributes}]"
    )
