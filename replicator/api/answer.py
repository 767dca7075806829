"""What all answers of REST have in common; see `answers`."""

from __future__ import annotations

from pydantic import ConfigDict

from replicator.api.field_meanings import Described

__all__ = ["Answer"]


class Answer(Described):
    """Has no fields but those that are described."""

    model_config = ConfigDict(extra="forbid")
