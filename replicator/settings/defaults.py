"""The default of a setting as help and the reference write it: in a form that may be given."""

from __future__ import annotations

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from replicator.settings.sizes import is_size, size_text

__all__ = ["default_text"]


def default_text(field: FieldInfo) -> str:
    """Empty where there is none, or an empty one."""
    value = field.default
    if value is PydanticUndefined or value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(value)
    if is_size(field):
        return size_text(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
