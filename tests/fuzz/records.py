"""What is fuzzed of whoever reads what others have written: records of the group, and dead letters."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from replicator.admin.dead_letter_resend import RESENT, resent_properties
from replicator.admin.dead_letters import letter_of, step_of
from replicator.observe.logging import configure
from replicator.protocol import properties
from replicator.protocol.message import parse_messages
from replicator.routing import provenance
from tests.protocol.test_message import stored
from tests.support.record_readers import Readers, merge, reader_of
from tests.support.records import WRITTEN

__all__ = ["RECORDS"]

configure(level="error")


def readers(data: bytes) -> None:
    """A value as JSON, of the record that the first byte chooses: what fits, whoever needs it can read.

    The queue that it is about is known before.
    """
    if not data:
        return
    kind, key, _ = WRITTEN[data[0] % len(WRITTEN)]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        found = Readers(Path(directory))
        try:
            known = [row for row in WRITTEN if row[0] in ("task", "position", "offset") and row[1] != key]
            assert merge(found.paged, [[*row[:2], [1, "w"], row[2]] for row in known]) == []
            row = msgspec.json.encode([kind, key, [2, "w"], None])
            merge(found.paged, b"[%b%b]]" % (row.removesuffix(b"null]"), data[1:]))
            reader_of(kind, key)(found)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        finally:
            found.close()


def letters(data: bytes) -> None:
    """A message of the dead letters, as its properties: what is a letter names what is sent again."""
    (message,) = parse_messages(stored(properties=data[: properties.MAX_PROPERTIES]))
    step_of(message)
    letter = letter_of("b", message)
    if letter is not None:
        sent = resent_properties(message, letter)
        place = f"{letter.source.cluster}/{letter.source.broker}/{letter.source.queue_id}/{letter.source.offset}"
        assert properties.find(sent, RESENT) == f"{place}/{letter.source.stored}".encode()
        assert provenance.read(sent) is None, "it is not a copy, for recovery"


_LETTER: Final = (
    b"__RPL_ORIGIN\x01e\x02__RPL_SOURCE\x01e/a/0/5/9\x02KEYS\x01k\x02__RPL_TOPIC\x01orders\x02"
    b"__RPL_REASON\x01too large\x02__RPL_SIZE\x01100\x02__RPL_OMITTED\x01body\x02"
)

#: Targets as in `TARGETS`: what takes the bytes, and seeds.
RECORDS: Final[Mapping[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]]] = {
    "readers": (readers, tuple(bytes([at]) + msgspec.json.encode(row[2]) for at, row in enumerate(WRITTEN))),
    "letters": (letters, (_LETTER, b"__RPL_RESEND\x01begun 5 17\x02", b"__RPL_RESEND\x01done 5 18\x02")),
}
