"""What all tables of settings have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator

__all__ = ["FilePath", "SomePath", "Table"]


def _some_path(value: object) -> object:
    if isinstance(value, str) and (not value.strip() or "\0" in value):
        raise ValueError("name a path, or leave it out")
    return value


#: A path: an empty text, which would be the working directory, is none.
SomePath = Annotated[Path, BeforeValidator(_some_path)]
#: The same, where there need not be one.
FilePath = Annotated[Path | None, BeforeValidator(_some_path)]


class Table(BaseModel):
    """A table that has no other settings than its fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, value: Any, info: ValidationInfo) -> Any:
        """To Python `true` is 1."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation in (int, float):
            raise ValueError("give a number")
        return value
