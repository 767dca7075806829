"""An empty path would be the working directory: it is refused by name, whichever setting it is given for."""

from __future__ import annotations

from pathlib import Path

import pytest

from replicator.settings import setting_fields
from tests.support.settings import flags, mistakes

PATHS = [name for name, field in setting_fields() if field.annotation in (Path, Path | None)]


def test_all_of_them_are_looked_at() -> None:
    assert {"store_path", "source.secret_key_file", "rest.tls.ca_file", "acl.source_dir"} <= {*PATHS}


@pytest.mark.parametrize("given", ["", " ", "a\0b"])
@pytest.mark.parametrize("name", PATHS)
def test_what_is_no_path(name: str, given: str) -> None:
    first, *more = name.split(".")
    value: object = given
    for part in reversed(more):
        value = {part: value}
    start = flags()
    given_flags = {**start, first: {**start.get(first, {}), **value} if isinstance(value, dict) else value}
    (line,) = [line for line in mistakes(given_flags) if line.startswith(name)]
    assert line.endswith(": name a path, or leave it out")
