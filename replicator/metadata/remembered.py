"""What was looked up, for as long as each look at all uses it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Remembered"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Values by key. What is neither looked up nor set between two calls of `forget_unused` is forgotten."""

    def __init__(self) -> None:
        self._used: dict[K, V] = {}
        self._before: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._used | self._before)

    def __setitem__(self, key: K, value: V) -> None:
        self._used[key] = value

    def get(self, key: K) -> V | None:
        """The value of `key`, None where there is none."""
        found = self._used.get(key)
        if found is None and key in self._before:
            found = self._used[key] = self._before[key]
        return found

    def forget_unused(self, keep: Callable[[K], bool] = lambda _: False) -> None:
        """A look at all has ended; unused keys for which `keep` says so stay."""
        kept = {key: value for key, value in self._before.items() if keep(key)}
        self._before, self._used = kept | self._used, {}
