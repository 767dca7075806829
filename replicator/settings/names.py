"""Lists of names and of patterns, given with commas or as TOML lists."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from replicator.settings.clusters import comma_list
from replicator.settings.name_patterns import name_patterns

__all__ = ["Names", "Patterns"]


def _compiled(patterns: list[str]) -> list[str]:
    name_patterns(tuple(patterns))
    return patterns


Names = Annotated[list[str], BeforeValidator(comma_list)]
Patterns = Annotated[list[str], BeforeValidator(comma_list), AfterValidator(_compiled)]
