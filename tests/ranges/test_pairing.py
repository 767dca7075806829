"""What differs between a target queue and its source is found to the run, however brokers store it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.protocol.message import StoredMessage
from replicator.protocol.uniform_run import messages_in
from replicator.ranges import pairing as module
from replicator.ranges.copies import Kept, copies_of
from replicator.ranges.pairing import Pairing
from replicator.routing.provenance import Stamp
from replicator.routing.queue_map import Queue
from tests.support.stored import encoded

QUEUE = Queue("east-a", 3)
RUN = 4
MADE = (b"CLUSTER\x01east", b"MSG_REGION\x01DefaultRegion", b"TRACE_ON\x01true")
FOREIGN = b"KEYS\x01somebody's\x02"

_names = st.sampled_from([b"KEYS", b"TAGS", b"UNIQ_KEY", b"n", "ключ".encode()])
_values = st.sampled_from([b"", b"1", b"two words", b"CLUSTER", "値".encode()])
_own = st.dictionaries(_names, _values).map(lambda told: [name + b"\x01" + value for name, value in told.items()])


#: How what was pulled is given out.
_read = list


@pytest.fixture(autouse=True, params=["one by one", "as pulled"])
def _short_runs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that are alike are compared by compiled code, with the same result."""
    monkeypatch.setattr(module, "RUN", RUN)
    if request.param == "as pulled":
        monkeypatch.setattr(sys.modules[__name__], "_read", lambda messages: messages_in(encoded(messages)))


def _message(offset: int, raw: bytes = b"KEYS\x01k\x02", *, body: bytes = b"\0\0\0\1x") -> StoredMessage:
    return StoredMessage(offset, 7, 1, 5, 1_700_000_000_000 + offset, 0, 0, body, raw)


@st.composite
def _sources(draw: st.DrawFn) -> list[StoredMessage]:
    """Some of one queue, as brokers of any version store them; some were filtered out."""
    made = draw(st.sampled_from([(), MADE[:1], MADE]))
    ended = draw(st.sampled_from([b"\x02", b""]))
    messages, offset = [], draw(st.integers(0, 3 * RUN))
    for own in draw(st.lists(_own, max_size=16)):
        parts = draw(st.permutations([*own, *made])) if draw(st.booleans()) else [*own, *made]
        messages.append(_message(offset, b"\x02".join(parts) + (ended if parts else b"")))
        offset += draw(st.sampled_from([1, 1, 1, 2]))
    return messages


def _copies(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """As the target stores what the sink sends."""
    stamped = Stamp("east", *QUEUE).renew(messages)
    return [
        msgspec.structs.replace(message, store_timestamp=9, properties=raw + b"\x02".join(MADE) + b"\x02")
        for message, raw in zip(messages, stamped, strict=True)
    ]


def _stored(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """At target offsets from 100 on."""
    return [msgspec.structs.replace(each, queue_offset=100 + at) for at, each in enumerate(messages)]


async def _paired(
    source: Sequence[StoredMessage],
    target: Sequence[StoredMessage],
    *,
    end: int | None = None,
    pulls: Sequence[int] = (3,),
    start: int = 0,
) -> Pairing:
    async def ahead() -> AsyncIterator[Sequence[StoredMessage]]:
        for at in range(0, len(source), 3):
            yield _read(source[at : at + 3])

    times = {message.queue_offset: message.store_timestamp for message in source}

    async def stored_at(offset: int) -> int | None:
        return times.get(offset)

    pairing = Pairing("east", QUEUE, ahead(), stored_at, start=start, begin=start, topic="t")
    at = turn = 0
    while at < len(target):
        size = pulls[turn % len(pulls)]
        await pairing.take(_read(target[at : at + size]))
        at, turn = at + size, turn + 1
    await pairing.finish(pairing.highest + 1 if end is None else end)
    return pairing


@given(_sources(), st.randoms(), st.lists(st.integers(1, 6), min_size=1, max_size=4))
async def test_copies_are_what_their_messages_are(
    source: list[StoredMessage], random: object, pulls: list[int]
) -> None:
    """In one pull or several, with others' messages among them, and in any order of a message's properties."""
    copies = _copies(source)
    turned = []
    for copy in copies:
        parts = copy.properties.rstrip(b"\x02").split(b"\x02")
        random.shuffle(parts)  # type: ignore[attr-defined]
        turned.append(msgspec.structs.replace(copy, properties=b"\x02".join(parts)))
    mixed = [each for copy in copies for each in (copy, _message(0, FOREIGN))]
    for target in (copies, turned, mixed):
        pairing = await _paired(source, _stored(target), pulls=pulls)
        assert pairing.differing == set()
        assert pairing.selected == pairing.copies == len(source)
        assert len(set(pairing.digests)) == 1
        offsets = [message.queue_offset for message in source]
        assert (pairing.first, pairing.highest) == (min(offsets, default=None), max(offsets, default=-1))


@given(
    _sources(),
    st.lists(
        st.tuples(st.sampled_from(["lose", "repeat", "move", "change", "foreign", "invent"]), st.integers(0, 40))
    ),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(1, 3),
)
async def test_the_runs_that_differ_are_those_that_differ(
    source: list[StoredMessage], damages: list[tuple[str, int]], pulls: list[int], most: int
) -> None:
    """Whatever was done to the copies, in whatever order: neither more runs nor fewer, and where copies lie."""
    target = _copies(source)
    for damage, number in damages:
        at = number % (len(target) + 1)
        if damage == "foreign":
            target.insert(at, _message(0, FOREIGN))
        elif damage == "invent":
            target[at:at] = _copies([_message(number)])
        elif at == len(target):
            continue
        elif damage == "lose":
            del target[at]
        elif damage == "repeat":
            target.insert(13 * number % (len(target) + 1), target[at])
        elif damage == "move":
            moved = target.pop(at)
            target.insert(13 * number % (len(target) + 1), moved)
        else:
            target[at] = msgspec.structs.replace(target[at], flag=8)
    target = _stored(target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STRETCHES", most)
        pairing = await _paired(source, target, pulls=pulls)

    found = copies_of("east", QUEUE, target, start=0, topic="t")
    had = {message.queue_offset for message in source}
    known = [offset if offset in had else -1 for offset in found.offsets]
    end = max(known, default=-1) + 1
    wanted = [message for message in source if message.queue_offset < end]
    sent = [(offset, Kept.of_copy(copy)) for offset, copy in zip(found.offsets, found.messages, strict=True)]
    there = [(message.queue_offset, Kept.of_source(message, "east", topic="t")) for message in wanted]
    late = {offset // RUN for at, offset in enumerate(found.offsets) if offset <= max(known[:at], default=-1)}
    out = {
        offset // RUN
        for copy, offset in zip(found.messages, found.offsets, strict=True)
        if pairing.order.is_out(copy.queue_offset)
    }
    differing = (
        late
        | out
        | {
            run
            for run in {offset // RUN for offset, _ in (*sent, *there)}
            if [each for each in sent if each[0] // RUN == run] != [each for each in there if each[0] // RUN == run]
        }
    )
    assert pairing.differing == differing
    assert (pairing.selected, pairing.copies) == (len(wanted), len(sent))
    assert (len(set(pairing.digests)) == 1) == (sent == there)
    placed = [(copy.queue_offset, offset) for copy, offset in zip(found.messages, found.offsets, strict=True)]
    assert pairing.stretches.keys() == {offset // RUN for _, offset in placed}
    for run, stretches in pairing.stretches.items():
        lie = [at for at, offset in placed if offset // RUN == run]
        assert (stretches[0].start, stretches[-1].end) == (lie[0], lie[-1] + 1)
        assert len(stretches) <= most
        for at in lie:
            assert sum(stretch.start <= at < stretch.end for stretch in stretches) == 1
        for stretch in stretches:
            assert stretch.highest == max(
                (offset for at, offset in placed if at < stretch.start and offset in had), default=-1
            )


async def test_a_repeat_does_not_put_what_follows_out_of_step() -> None:
    """Only its own run differs."""
    source = [_message(offset) for offset in range(2 * RUN)]
    copies = _copies(source)
    pairing = await _paired(source, _stored([*copies[:RUN], copies[0], *copies[RUN:]]))
    assert (pairing.differing, pairing.selected, pairing.copies) == ({0}, 2 * RUN, 2 * RUN + 1)


async def test_copies_that_are_right_are_not_looked_at_singly() -> None:
    """Of messages that were born here, and of copies."""
    born = "__RPL_ORIGIN\x01north\x02__RPL_SOURCE\x01north/n-a/0/{}/1\x02KEYS\x01k\x02"
    for raws in ([b"KEYS\x01k\x02"] * 6, [born.format(at).encode() for at in range(6)]):
        source = [_message(at, raw) for at, raw in enumerate(raws)]

        async def nothing_else(offset: int) -> int | None:
            raise AssertionError(offset)

        async def ahead(source: Sequence[StoredMessage] = source) -> AsyncIterator[Sequence[StoredMessage]]:
            yield _read(source)

        pairing = Pairing("east", QUEUE, ahead(), nothing_else, start=0, begin=0, topic="t")
        assert await pairing.take(_read(_stored(_copies(source)))) == ([], [], [])
        assert pairing.copies == 6


@given(_sources(), st.sets(st.integers(0, 15)))
async def test_digests_are_of_what_is_there(source: list[StoredMessage], lost: set[int]) -> None:
    """Those of copies, of which some are lost, are those of the messages that are left."""
    left = [message for at, message in enumerate(source) if at not in lost]
    end = max((message.queue_offset for message in source), default=0) + 1
    whole, rest = _stored(_copies(source)), _stored(_copies(left))
    damaged = (await _paired(source, rest, end=end)).digests
    assert damaged == ((await _paired(source, whole)).digests[0], (await _paired(left, rest)).digests[0])


@pytest.mark.parametrize(
    "changed",
    [
        {"body": b"\0\0\0\1y"},
        {"flag": 8},
        {"sys_flag": 0},
        {"reconsume_times": 1},
        {"properties": b"KEYS\x01other\x02"},
        {"properties": b"KEYS\x01k\x02more\x011\x02"},
        {"properties": b""},
        {"store_timestamp": 1},
    ],
    ids=str,
)
async def test_what_a_copy_must_keep(changed: dict[str, object]) -> None:
    """Each single thing, wherever in a pull it stands; and of all that is in it."""
    source = [_message(offset) for offset in range(2 * RUN)]
    pairing = await _paired(source, _stored(_copies([msgspec.structs.replace(each, **changed) for each in source])))
    assert (pairing.differing, len(set(pairing.digests))) == ({0, 1}, 2)
    for at in range(len(source)):
        copies = [msgspec.structs.replace(each, **changed) if n == at else each for n, each in enumerate(source)]
        pairing = await _paired(source, _stored(_copies(copies)))
        assert pairing.differing == {at // RUN}
        assert len(set(pairing.digests)) == 2


async def test_a_copy_that_says_it_was_born_where_it_was_copied_from() -> None:
    """The message says that it was born elsewhere: whoever wrote this copy has not copied it as we do."""
    raw = b"__RPL_ORIGIN\x01north\x02__RPL_SOURCE\x01north/n-a/0/1/1\x02KEYS\x01k\x02"
    source = [_message(offset, raw) for offset in range(3)]
    put = Stamp("east", *QUEUE).put(source)
    forged = [msgspec.structs.replace(each, properties=own) for each, own in zip(source, put, strict=True)]
    assert (await _paired(source, _stored(forged))).differing == {0}


async def test_a_copy_of_a_copy_keeps_its_origin() -> None:
    """Its own provenance is that of this hop."""
    message = _message(5, b"__RPL_ORIGIN\x01north\x02__RPL_SOURCE\x01north/n-a/0/9/1\x02KEYS\x01k\x02")
    copies = _stored(_copies([message]))
    assert (await _paired([message], copies)).differing == set()
    assert (await _paired([_message(5)], copies)).differing == {5 // RUN}


@pytest.mark.parametrize(
    "source",
    ["east/east-a/3/5", "east/east-a/3/five/1", "east/east-a/3//1", "east/east-a/4/5/1", "west/east-a/3/5/1"],
)
def test_what_is_no_copy_of_the_queue(source: str) -> None:
    """Somebody else's, or broken."""
    message = _message(0, f"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01{source}\x02".encode())
    found = copies_of("east", QUEUE, [message], start=0, topic="t")
    assert (found.messages, found.offsets, len(found.others)) == ([], [], 1)


async def test_what_lies_before_the_start_is_left_out() -> None:
    """It cannot be compared with anything: the source has lost it."""
    whole = [_message(offset) for offset in range(6)]
    pairing = await _paired(whole[2:], _stored(_copies(whole)), start=2)
    assert (pairing.differing, pairing.selected, pairing.copies, pairing.first) == (set(), 4, 4, 2)
