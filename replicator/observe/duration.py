"""How long something takes, in words."""

from __future__ import annotations

__all__ = ["duration"]


def duration(seconds: float) -> str:
    """`8 s`, `12 m`, `3 h 05 m` or `2 d`, rounded up to the second."""
    if seconds < 100:
        return f"{int(seconds) + (seconds > int(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} m"
    return f"{minutes // 60} h {minutes % 60:02} m" if minutes < 48 * 60 else f"{round(minutes / 60 / 24)} d"
