"""Only what a worker with the group's secret wrote, for this topic and group, is believed."""

from __future__ import annotations

import contextlib
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigError
from replicator.group.membership import Heartbeat
from replicator.group.signature import Signer, Unsigned, Verified, WrongSignature
from replicator.group.wire import Unreadable, write_heartbeat
from replicator.settings import Settings

SECRET = "s" * 32
SIGNER, OTHER, NONE = Signer(SECRET), Signer("t" * 32), Signer()
BODY = write_heartbeat("g", Heartbeat(worker="w", incarnation="i", sequence=1))


def test_a_signed_message_is_believed() -> None:
    signed = SIGNER.sign("topic", "g", BODY)
    assert SIGNER.verify("topic", signed, ("g",)) == Verified(BODY, signed=True, known=True)
    assert SIGNER.heartbeat("topic", signed, "g") == Heartbeat(worker="w", incarnation="i", sequence=1)


@given(st.integers(0, len(SIGNER.sign("topic", "g", BODY)) - 1), st.integers(1, 255))
def test_no_byte_can_be_changed(at: int, by: int) -> None:
    signed = bytearray(SIGNER.sign("topic", "g", BODY))
    signed[at] ^= by
    assert SIGNER.heartbeat("topic", bytes(signed), "g") is None


@pytest.mark.parametrize("made", [SIGNER.sign("other", "g", BODY), OTHER.sign("topic", "g", BODY)])
def test_another_topic_or_secret_is_a_wrong_signature(made: bytes) -> None:
    with pytest.raises(WrongSignature):
        SIGNER.verify("topic", made, ("g",))


def test_a_signature_of_another_group_does_not_hold_for_this_one() -> None:
    """Nor is a message of another group looked at: it may have another secret."""
    signed = SIGNER.sign("topic", "other", BODY)
    assert SIGNER.verify("topic", signed, ("g", "g/jobs")) is None
    with pytest.raises(WrongSignature):
        SIGNER.verify("topic", signed.replace(b" other\n", b" g\n"), ("g",))


@pytest.mark.parametrize("body", [BODY, zlib.compress(BODY)])
def test_what_is_not_signed_is_refused_if_it_is_of_the_group(body: bytes) -> None:
    with pytest.raises(Unsigned):
        SIGNER.verify("topic", body, ("g",))
    assert SIGNER.verify("topic", body, ("other",)) is None
    accepting = Signer(SECRET, accepts_unsigned=True)
    assert accepting.verify("topic", body, ("g",)) == Verified(body, signed=False, known=False)
    with pytest.raises(WrongSignature):
        accepting.verify("topic", OTHER.sign("topic", "g", body), ("g",))


def test_a_worker_without_a_secret_believes_all() -> None:
    assert NONE.sign("topic", "g", BODY) == BODY
    assert NONE.verify("topic", SIGNER.sign("topic", "g", BODY), ("g",)) == Verified(BODY, signed=True, known=False)


@given(st.binary(max_size=300))
def test_garbage_is_refused(garbage: bytes) -> None:
    for data in (garbage, b"signed " + garbage):
        with contextlib.suppress(Unreadable):
            assert SIGNER.verify("topic", data, ("g",)) is None


def test_the_secret_is_shown_nowhere_and_goes_to_spark_tasks() -> None:
    assert SECRET not in repr(SIGNER)
    assert pickle.loads(pickle.dumps(SIGNER)) == SIGNER


def test_it_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    given: dict[str, Any] = {"source": "a:1", "target": "b:1", "worker_group_secret_file": file}
    assert Signer.of(Settings(**given)) == SIGNER
    assert Signer.of(Settings(**given, worker_group_accept_unsigned=True)) == Signer(SECRET, accepts_unsigned=True)
    file.write_text("short\n")
    with pytest.raises(ConfigError, match=r"worker_group_secret_file = .* less than 32 characters") as caught:
        Signer.of(Settings(**given))
    assert "replicator secret FILE" in caught.value.hint
