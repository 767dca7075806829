"""Signatures are those that brokers compute themselves."""

from __future__ import annotations

import base64
import hashlib

from replicator.protocol.signing import sign


def hmac_sha1(key: bytes, content: bytes) -> bytes:
    """RFC 2104 by hand."""
    key = hashlib.sha1(key).digest() if len(key) > 64 else key
    key = key.ljust(64, b"\x00")
    inner = hashlib.sha1(bytes(b ^ 0x36 for b in key) + content).digest()
    return hashlib.sha1(bytes(b ^ 0x5C for b in key) + inner).digest()


def test_the_by_hand_function_gives_the_vector_of_rfc_2202() -> None:
    """Test case 2, so that what follows stands on something known."""
    made = hmac_sha1(b"Jefe", b"what do ya want for nothing?")
    assert made.hex() == "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"


def test_values_are_joined_in_the_order_of_names_then_the_body() -> None:
    """`AccessKey` is one of them, upper case sorts before lower case."""
    signed = sign({"topic": "T", "b": "2", "Zone": "z"}, (b"bo", b"dy"), access_key="me", secret_key="s3cret")
    content = b"me" + b"z" + b"2" + b"T" + b"body"
    assert signed["Signature"] == base64.b64encode(hmac_sha1(b"s3cret", content)).decode()
    assert signed == {"topic": "T", "b": "2", "Zone": "z", "AccessKey": "me", "Signature": signed["Signature"]}


def test_unicode_and_long_keys() -> None:
    """All text is UTF-8; a secret over 64 bytes is hashed first."""
    signed = sign({"é": "日本"}, (), access_key="ключ", secret_key="ü" * 50)
    expected = hmac_sha1(("ü" * 50).encode(), "ключ日本".encode())
    assert signed["Signature"] == base64.b64encode(expected).decode()


def test_the_given_fields_are_left_alone() -> None:
    """The caller may sign them again for another try."""
    fields = {"a": "1"}
    assert sign(fields, (), access_key="k", secret_key="s") == sign(fields, (), access_key="k", secret_key="s")
    assert fields == {"a": "1"}
