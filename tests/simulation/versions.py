"""In what brokers of 4.9.7, 5.3.3 and 5.5.0 differ, as far as a worker sees it; measured by the conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replicator.protocol.codes import Response

__all__ = ["VERSIONS", "Version"]

#: The names of what brokers write themselves.
_REGION, _CLUSTER, _TRACE, _KEY = b"MSG_REGION", b"CLUSTER", b"TRACE_ON", b"UNIQ_KEY"


@dataclass(frozen=True, slots=True)
class Version:
    """One version; `marks` are the names of what it appends to each message of a batch."""

    name: str
    marks: tuple[bytes, ...]

    @property
    def is_old(self) -> bool:
        return self.name.startswith("4.")

    @property
    def no_queue(self) -> int:
        """The code for a queue that is not there, and for names that cannot be."""
        return Response.SYSTEM_ERROR if self.is_old else Response.INVALID_PARAMETER

    def marked(self, properties: bytes, cluster: bytes) -> bytes:
        """The properties of a message of a batch as they are stored."""
        own = b"\x02".join(name + b"\x01" + _value(name, cluster) for name in self.marks)
        if not own:
            return properties
        between = b"" if not properties or properties.endswith(b"\x02") else b"\x02"
        return properties + between + own + (b"" if self.is_old else b"\x02")

    def single(self, properties: bytes, cluster: bytes, key: bytes) -> bytes:
        """The properties of a message that was sent singly; real brokers put them into no order."""
        replaced = (_CLUSTER,) if self.is_old else (_REGION, _CLUSTER, _TRACE)
        parts = [part for part in properties.split(b"\x02") if part and part.partition(b"\x01")[0] not in replaced]
        if not self.is_old and not any(part.startswith(_KEY + b"\x01") for part in parts):
            parts.append(_KEY + b"\x01" + key)
        parts += [name + b"\x01" + _value(name, cluster) for name in replaced]
        return b"\x02".join(parts) + (b"" if self.is_old else b"\x02")

    def too_large(self) -> tuple[int, str]:
        """The answer to a batch that is larger than messages may be."""
        if self.is_old:
            return Response.MESSAGE_ILLEGAL, (
                "the message is illegal, maybe msg body or properties length not matched. msg body length limit"
                " 4194304B, msg properties length limit 32KB."
            )
        return Response.SYSTEM_ERROR, (
            "java.lang.RuntimeException: message body size exceeded,"
            " org.apache.rocketmq.store.MessageExtEncoder.encode(MessageExtEncoder.java:290)"
        )

    def bad_name(self, topic: str) -> str:
        """The remark on a topic's name that has other characters than names have."""
        which = f": {topic}," if self.name == "5.5.0" else ""
        return f"The specified topic{which} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"


def _value(name: bytes, cluster: bytes) -> bytes:
    return {_REGION: b"DefaultRegion", _CLUSTER: cluster, _TRACE: b"true"}[name]


def _versions(*all_: Version) -> dict[str, Version]:
    return {each.name: each for each in all_}


VERSIONS: Final = _versions(
    Version("4.9.7", (_CLUSTER,)), Version("5.3.3", (_REGION, _CLUSTER, _TRACE)), Version("5.5.0", ())
)
