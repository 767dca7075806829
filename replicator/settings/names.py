"""Lists of names and of patterns, given with commas or as TOML lists."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from replicator.settings.clusters import comma_list, split_at_commas
from replicator.settings.name_patterns import name_patterns
from replicator.settings.shown import quoted

__all__ = ["Names", "Patterns"]


def _compiled(patterns: list[str]) -> list[str]:
    for pattern in patterns:
        if len(split_at_commas(pattern)) > 1:
            raise ValueError(f"{quoted(pattern)} has a comma, which no name has: make several items of it")
    name_patterns(tuple(patterns))
    return patterns


Names = Annotated[list[str], BeforeValidator(comma_list)]
Patterns = Annotated[list[str], BeforeValidator(comma_list), AfterValidator(_compiled)]
