"""What the fields of answers and requests mean: one name means one thing, wherever it stands.

A field with a description of its own means that.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

__all__ = ["PARAMETERS", "Described"]

_MEANINGS: Final = {
    "action": "what is to be done, or was",
    "after": "as it is then; null: it is gone",
    "audit_differences": "messages that are not at the target as they were sent",
    "before": "as it is at the target now; null: it is not there",
    "body": "the answer itself; where the request was refused, why",
    "broker": "name of a broker",
    "class": "as `connector.class` names it",
    "config": "its configuration, with all defaults",
    "connector": "name of a connector",
    "connectors": "all of the group, by name",
    "copied": "messages acknowledged by the target since this worker's process started",
    "copied_in_all": "messages acknowledged by the target since the route was created, by any worker",
    "default": "in force where nothing is given",
    "detail": "what differs, in words; digests instead of bodies",
    "details": "the other fields of the log line, by name",
    "differences": "between what the target has of topics, groups and accounts, and what it should have",
    "documentation": "what the setting does",
    "drained": "the target has all that the source had, and lost nothing of it",
    "dry_run": "change nothing, and report what would be done",
    "duplicates": "messages found at the target besides their first copies",
    "errors": "one a line",
    "event": "what happened, as in the log",
    "failed": "queues that have failed",
    "force": "groups whose offsets are written even if they have consumers at the target, and backwards",
    "foreign": "messages in the target's queues that are not copies of this route",
    "gap_messages": "messages that the source had deleted before they were read",
    "group": "name of a consumer group, or of the group of workers",
    "groups": "consumer groups, by topic",
    "id": "counts up, for Last-Event-ID",
    "info": "as GET /connectors/{name} has it",
    "kind": "the resource: topics, consumer groups, their offsets, or accounts and their rights",
    "lag_messages": "messages of the source that are not at the target yet",
    "lag_seconds": "age of the oldest message that is not at the target yet; 0: none",
    "late": "messages stored before the source was declared dead, and copied after it came back",
    "leader": "the worker that assigns tasks, or whether this one does",
    "level": "least severity that is logged",
    "messages": "number of messages, or the messages by topic",
    "missed": "messages that the group would never get",
    "missing": "topics of which something is not at the target, or not known",
    "name": "name of the connector",
    "not_released": "parked messages that were not released, by topic and reason",
    "note": "what an operator should know before it is applied; empty: nothing",
    "offset": "offset in the queue",
    "open_all": "make the topics readable and writable, whatever their perm is at the source",
    "pending": "what the source's brokers hold back",
    "problem": "why it is not known, or cannot be copied; empty: nothing",
    "problems": "what could not be done, or does not work, in words",
    "queue": "queue id",
    "queues": "number of queues, or the queues",
    "rate_bytes": "limit of the route in bytes a second; 0: none",
    "rate_messages": "limit of the route in messages a second; 0: none",
    "reason": "why, in words; empty: nothing is wrong",
    "reasons": "why a failover now would not be complete, one reason a line; empty: it would be",
    "rebalancing": "whether tasks move between workers now",
    "recalled": "parked messages that their producers had recalled",
    "redelivered": "messages that the group would get again",
    "required": "whether it must be given",
    "resets": "how often the source queue was found truncated or recreated",
    "retries": "sends that were repeated since the target was busy",
    "seconds": "age of the oldest message that is missing; 0: none",
    "side": "`source` or `target`",
    "skipped": "messages that the route leaves out",
    "source": "at the source: the cluster's id, or the queue and offset",
    "source_dead": "the source is given up: do not wait for it",
    "stalled": "whether it lags and makes no progress, or how many queues do",
    "state": "in upper case, as Kafka Connect has it",
    "status": "as GET /connectors/{name}/status has it",
    "takes_tasks": "whether it may be given tasks: it reaches the target",
    "target": "at the target: the cluster's id, or the queue and offset",
    "target_lost": "messages that the target had acknowledged and then lost",
    "target_topic": "the topic's name at the target",
    "task": "the task's name within its connector",
    "tasks": "one or all of a connector",
    "topic": "the topic's name at the source",
    "topics": "number of topics, or the topics",
    "topics_opened": "topics whose perm was changed at the target",
    "type": "`ROUTE`, `SOURCE` or `SINK`",
    "unknown_queues": "queues whose ends are not known, and how far each was copied",
    "valid": "whether it can be used",
    "verified": "how far copies were read back, by topic",
    "verified_age_seconds": "age of the oldest copy that is to be read back and was not yet; 0: none",
    "version": "of the program, or of a plugin",
    "waiting_for": "what must happen before this worker joins its group; empty: nothing",
    "worker": "id of a worker",
    "worker_id": "id of a worker",
    "workers": "the workers of the group whose heartbeats arrive",
}


PARAMETERS: Final = {
    "after": "events behind this id alone; below 0: only those that come",
    "broker": "name of the source broker",
    "key": "of a message, as its producer gave it",
    "last_event_id": "the same as `after`, as browsers send it",
    "name": "of the connector; below /brokers of the broker, and of /plugin/config the connector's class",
    "offset": "in the queue",
    "queue": "queue id",
    "side": "`source` or `target`; of /where the one that the queue is at",
    "task": "its name within the connector",
    "topic": "its name at the source",
}


class Described(BaseModel):
    """A model whose JSON schema says of each field what it means."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema: dict[str, Any] = handler.resolve_ref_schema(handler(core))
        for name, field in schema.get("properties", {}).items():
            if "description" not in field:
                field["description"] = _MEANINGS[name]
        return schema
