"""The tokens of REST: one for each role, which a header can carry."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from replicator.errors import ConfigError
from replicator.settings import load
from replicator.settings.rest import RestTls
from replicator.settings.secret_file import read_secret, write_secret

BASE = {"source": {"namesrv": "s:1"}, "target": {"namesrv": "t:1"}}


def test_each_role_has_a_token_of_its_own(tmp_path: Path) -> None:
    """One of them is enough for any address; it must be one that a header can carry."""
    secret_file = tmp_path / "token"
    write_secret(secret_file)
    token = read_secret("x", secret_file)
    given = {"read_token": "reads", "operate_token_file": str(secret_file), "host": "0.0.0.0"}
    assert load(BASE | {"rest": given}, file=None).rest.bearers() == {"operate": token, "read": "reads"}
    same = load(BASE | {"rest": {"read_token": "same", "token": "same"}}, file=None)
    with pytest.raises(ConfigError, match="read_token is also that of another role"):
        same.rest.bearers()
    for odd in ("tok\nen", " token", "tök"):
        broken = load(BASE | {"rest": {"token": odd}}, file=None)
        with pytest.raises(ConfigError, match="cannot stand in a header") as caught:
            broken.rest.bearers()
        assert odd not in str(caught.value)


def test_a_certificate_that_may_not_be_looked_at() -> None:
    """As one whose name no file can have: the mistake is told, and not by a traceback."""
    with pytest.raises(ValidationError, match="is not a file"):
        RestTls(cert_file=Path("/", "x" * 300), key_file=Path("/", "x" * 300))
