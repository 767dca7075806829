"""Whole tables of a broker's metadata: in one answer, or in the pages that 5.5 may give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from replicator.client.endpoint import Endpoint
from replicator.errors import ProtocolError
from replicator.protocol import fastjson

__all__ = ["TABLE_TIMEOUT", "Pages", "TableRequest", "members", "read_pages"]

#: Entries in one page; older brokers answer with all.
_PAGE: Final = 5000
#: Seconds. Thousands of entries are megabytes of JSON.
TABLE_TIMEOUT: Final = 30.0
#: Entries of a table, and bytes of its pages, at most: several times what brokers can keep. Whoever answers in a
#: broker's place may say that there are always more.
_MOST_ENTRIES: Final = 500_000
_MOST_BYTES: Final = 256 * 1024 * 1024
#: How often a table is read from its beginning again, because it changed between two pages.
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class TableRequest:
    """How a kind of table is asked for: request code, and what the fields are called."""

    code: int
    table: str
    seq: str
    most: str
    total: str
    #: A second table, of which each page has what belongs to its entries; empty when none is wanted.
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Pages:
    """A whole table, the last page's other members, and the raw answers, to see cheaply what has changed.

    `beside` is the second table that was asked for; brokers that do not have it leave it empty.
    """

    entries: dict[str, Any]
    beside: dict[str, Any]
    last: dict[str, Any]
    raw: tuple[bytes, ...]


async def read_pages(broker: Endpoint, request: TableRequest, *, known: tuple[bytes, ...] = ()) -> Pages | None:
    """The table that `request` asks for; None when its raw answers are the `known` ones.

    Raises:
        BrokerRefused, Unreachable, RequestTimeout: see there.
        ProtocolError: no table, one that changes faster than it can be read, or one without an end.
    """
    for _ in range(_TRIES):
        try:
            return await _read(broker, request, known)
        except _Changed:
            continue
    raise ProtocolError(f"a broker's {request.table} that changes with each of its pages")


class _Changed(Exception):
    """The table became another one between two pages; the broker has begun to give it from its first page."""


async def _read(broker: Endpoint, request: TableRequest, known: tuple[bytes, ...]) -> Pages | None:
    raw: list[bytes] = []
    entries: dict[str, Any] = {}
    beside: dict[str, Any] = {}
    version = ""
    while True:
        answer = await broker.ask(
            request.code,
            {request.seq: str(len(entries)), request.most: str(_PAGE), "dataVersion": version},
            timeout=TABLE_TIMEOUT,
        )
        raw.append(answer.body)
        _refuse_endless(broker, request, len(entries), sum(map(len, raw)))
        if known == tuple(raw):
            return None
        page = members(fastjson.parse(answer.body))
        asked, version = version, msgspec.json.encode(page.get("dataVersion")).decode()
        if asked not in ("", version):
            raise _Changed
        before = len(entries)
        entries.update(members(page.get(request.table)))
        beside.update(members(page.get(request.beside) or {}))
        total = answer.number(request.total) if request.total in answer.fields else 0
        if len(entries) >= total:
            return Pages(entries, beside, page, tuple(raw))
        if len(entries) == before:  # what is missing would be taken for deleted
            raise ProtocolError(f"{broker.address} has {total:,} entries in its {request.table}, and gives no more")


def _refuse_endless(broker: Endpoint, request: TableRequest, entries: int, size: int) -> None:
    if entries > _MOST_ENTRIES or size > _MOST_BYTES:
        raise ProtocolError(
            f"{broker.address} has answered with {entries:,} entries of {size:,} bytes for its {request.table}, and"
            " with no end of it"
        )


def members(value: object) -> dict[str, Any]:
    """`value`, if it is a JSON object whose keys are names; fastjson's may be whole objects.

    Raises:
        ProtocolError: it is none.
    """
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ProtocolError("a broker's table that is not a JSON object")
    return value
