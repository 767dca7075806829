"""Lists of names and of patterns, given with commas or as TOML lists."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from replicator.settings.clusters import comma_list

__all__ = ["Names", "Patterns"]


def _compiled(patterns: list[str]) -> list[str]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is an invalid regular expression ({error})") from None
    return patterns


Names = Annotated[list[str], BeforeValidator(comma_list)]
Patterns = Annotated[list[str], BeforeValidator(comma_list), AfterValidator(_compiled)]
