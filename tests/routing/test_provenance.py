"""Where a copy came from, read back exactly, over any number of hops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.protocol import properties
from replicator.protocol.message import StoredMessage
from replicator.routing.provenance import (
    ORIGIN,
    SOURCE,
    VIA,
    Provenance,
    Stamp,
    came_through,
    of,
    read,
    renewed_retries,
    retried,
)

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02/"), min_size=1, max_size=10)
BROKER = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=10)
OWN = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=8).filter(
        lambda name: not name.startswith("__RPL_") and name.encode() not in properties.BROKER_MADE
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=8),
    max_size=4,
)
NUMBER = st.integers(0, 2**62 - 1)


def message(raw: bytes, offset: int, stored: int, *, tried: int = 0) -> StoredMessage:
    return StoredMessage(offset, 0, 0, 0, stored, tried, 0, bytes(4), raw)


#: As brokers leave them: appended, in the order of a hash map, none; with and without the last 0x02.
AS_STORED = st.builds(
    lambda own, made, shuffled, cut_off: properties.encode(
        dict(shuffled.sample(list((own | made).items()), len(own | made)) if shuffled else (own | made).items())
    ).removesuffix(b"\x02" if cut_off else b""),
    OWN,
    st.dictionaries(st.sampled_from([name.decode() for name in properties.BROKER_MADE]), st.just("x")),
    st.none() | st.randoms(),
    st.booleans(),
)


@given(st.lists(st.lists(AS_STORED, min_size=1, max_size=4), max_size=4))
def test_messages_are_stamped_together_as_each_alone(chunks: list[list[bytes]]) -> None:
    """Whatever was learnt from the ones before."""
    stamp = Stamp("east", "a", 0)
    for raws in chunks:
        messages = [message(raw, offset, 7 * offset) for offset, raw in enumerate(raws)]
        stamped = stamp.put(messages)
        assert stamped == [Stamp("east", "a", 0).put([each])[0] for each in messages]
        for each, raw in zip(stamped, raws, strict=True):
            own = [(k, v) for k, v in properties.decode(raw).items() if k.encode() not in properties.BROKER_MADE]
            assert each.endswith(b"\x02" + properties.encode(dict(own)))
            assert len(properties.decode(each)) == len(own) + 2


@given(OWN, TEXT, BROKER, st.integers(0, 9999), NUMBER, NUMBER)
def test_what_is_stamped_is_read(
    own: dict[str, str], cluster: str, broker: str, queue_id: int, offset: int, stored: int
) -> None:
    """Cluster, broker (also one with a slash), queue, offset and store time; the rest stays to the byte."""
    raw = properties.encode(own)
    (stamped,) = Stamp(cluster, broker, queue_id).put([message(raw, offset, stored)])
    assert read(stamped) == Provenance(cluster, cluster, broker, queue_id, offset, stored)
    assert stamped.endswith(raw)
    assert stamped.endswith(b"\x02")
    assert Stamp(cluster, broker, queue_id).renew([message(raw, offset, stored)]) == [stamped]


@given(OWN, st.lists(st.tuples(TEXT, BROKER, NUMBER), min_size=2, max_size=5))
def test_the_origin_is_kept_over_all_hops(own: dict[str, str], hops: list[tuple[str, str, int]]) -> None:
    """Each hop replaces the source, none the origin; nothing piles up, brokers' additions go."""
    raw = properties.encode(own)
    for cluster, broker, offset in hops:
        (stamped,) = Stamp(cluster, broker, 3).renew([message(raw, offset, 7)])
        raw = stamped + b"CLUSTER\x01" + cluster.encode()
        assert read(raw) == Provenance(hops[0][0], cluster, broker, 3, offset, 7)
        assert raw.count(ORIGIN) == raw.count(SOURCE) == 1
    kept = {k: v for k, v in properties.decode(raw).items() if not k.startswith("__RPL_") and k != "CLUSTER"}
    assert kept == own


@given(st.lists(TEXT, min_size=1, max_size=6, unique=True), TEXT)
def test_a_copy_knows_all_clusters_on_its_way(way: list[str], other: str) -> None:
    """Its origin by that property; a copy of a copy has no more than it needs."""
    raw = b"KEYS\x01k\x02"
    for cluster in way:
        (raw,) = Stamp(cluster, "a", 0).renew([message(raw, 1, 2)])
    assert properties.find(raw, ORIGIN) == way[0].encode()
    assert [each for each in way if came_through(raw, each.encode())] == (way[1:] or way)
    assert came_through(raw, other.encode()) == (other in (way[1:] or way))
    assert (VIA in raw) == (len(way) > 2)


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=16), st.integers(0, 5))
def test_a_message_ends_its_way_whatever_routes_there_are(routes: set[tuple[int, int]], born: int) -> None:
    """Each copy has been at no cluster twice, whether or not its origin is in a ring."""
    under_way = [(born, b"KEYS\x01k\x02", [born])]
    while under_way:
        at, raw, way = under_way.pop()
        (copied,) = Stamp(str(at), "a", 0).renew([message(raw, 1, 2)])
        for target in (there for here, there in routes if here == at != there):
            name = str(target).encode()
            if properties.find(raw, ORIGIN) != name and not came_through(raw, name):
                assert target not in way
                under_way.append((target, copied, [*way, target]))


def test_a_user_property_that_speaks_of_provenance_survives() -> None:
    """The prefix within a value or inside a name is not ours."""
    raw = b"note\x01__RPL_ORIGIN\x02MY__RPL_SOURCE\x01x\x02"
    (stamped,) = Stamp("east", "a", 0).renew([message(raw, 1, 2)])
    assert stamped.endswith(raw)
    assert read(stamped) == Provenance("east", "east", "a", 0, 1, 2)


def test_what_is_ours_alone_is_not_taken_from_a_producer() -> None:
    """At the target it would pass for released, for sent again, or for a copy of another message."""
    names = ("RELEASED", "RESENT", "RESEND", "SEAL", "SOURCE", "VIA", "RETRIES", "TOPIC", "REASON", "anything")
    planted = b"".join(b"__RPL_%b\x01x/y/0/9/9\x02" % name.encode() for name in names)
    raw = b"KEYS\x01k\x02%b__RPL_DUE\x018\x02__RPL_RETAGGED\x011\x02note\x01n" % planted
    ((stamped,), (plain,)) = (Stamp("east", "a", 0).renew([message(each, 1, 2)]) for each in (raw, b"KEYS\x01k"))
    own = {"__RPL_ORIGIN": "east", "__RPL_SOURCE": "east/a/0/1/2", "KEYS": "k"}
    assert properties.decode(stamped) == own | {"__RPL_DUE": "8", "__RPL_RETAGGED": "1", "note": "n"}
    assert properties.decode(plain) == own
    assert stamped.endswith(b"\x02")


def test_a_waiting_copy_says_when_it_is_due() -> None:
    """Also where it is parked once more, by the next route of a chain: else nobody could release it there."""
    copy = b"__RPL_DUE\x018000\x02__RPL_ORIGIN\x01north\x02__RPL_SOURCE\x01north/a/0/1/2\x02KEYS\x01k\x02"
    (stamped,) = Stamp("east", "a", 0).renew([message(copy, 1, 2)])
    own = {"__RPL_ORIGIN": "north", "__RPL_SOURCE": "east/a/0/1/2"}
    assert properties.decode(stamped) == own | {"__RPL_DUE": "8000", "KEYS": "k"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"KEYS\x01k\x02",
        b"__RPL_ORIGIN\x01east\x02",
        b"__RPL_SOURCE\x01east/a/0/1/2\x02",
        b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east\x02",
        b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/a/0/x/2\x02",
        b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/a/0/1/\xff\x02",
        b"__RPL_ORIGIN\x01\xff\x02__RPL_SOURCE\x01east/a/0/1/2\x02",
        b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/a/-1/1/2\x02",
        b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/a/0/-1/2\x02",
        b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/a/0/1/4611686018427387904\x02",
        b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/a/0/4611686018427387904/2\x02",
    ],
)
def test_what_is_no_provenance_is_none(raw: bytes) -> None:
    """Nothing, half of it, nonsense in it, or numbers that no broker has: no record of progress could hold them."""
    assert read(raw) is None


@given(st.binary(max_size=40))
def test_garbage_is_read_without_an_error(tail: bytes) -> None:
    """Whatever stands in the two properties."""
    found = read(b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01" + tail)
    assert found is None or found.origin == "east"


def test_a_retry_of_a_copy_is_no_copy() -> None:
    """A broker keeps the properties of what is tried again, whether that was a copy of a message or of a retry."""
    copied = b"__RPL_ORIGIN\x01east\x02__RPL_SOURCE\x01east/a/0/1/2\x02KEYS\x01k\x02"
    place = Provenance("east", "east", "a", 0, 1, 2)
    first, again = message(copied, 5, 6, tried=1), message(retried(copied, 1), 5, 6, tried=2)
    copy = message(retried(copied, 1), 5, 6, tried=1)
    assert [of(each, "%RETRY%g") for each in (first, again, copy)] == [None, None, place]
    assert of(first, "T") == place
    kept = [each.properties for each in renewed_retries([first, again, copy, message(b"KEYS\x01k\x02", 1, 2)])]
    assert kept == [b"KEYS\x01k\x02", b"KEYS\x01k\x02", copy.properties, b"KEYS\x01k\x02"]


def test_a_copy_of_a_copied_retry_has_one_count() -> None:
    raw = retried(retried(b"KEYS\x01k\x02", 1), 3)
    assert raw == b"__RPL_RETRIES\x013\x02KEYS\x01k\x02"
