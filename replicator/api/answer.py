"""What all answers of REST have in common; see `answers`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Answer"]


class Answer(BaseModel):
    """Has no fields but those that are described."""

    model_config = ConfigDict(extra="forbid")
