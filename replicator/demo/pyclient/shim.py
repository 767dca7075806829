"""Imports rocketmq-client-python 2.0.0 over a C++ library that lacks four of the functions it binds."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

_MISSING = {
    "CreateOrderlyProducer",
    "CreateTransactionProducer",
    "SendMessageOrderlyByShardingKey",
    "SendMessageTransaction",
}


class _Library(ctypes.CDLL):
    """Provides a stub for each missing function; calling one fails."""

    def __getattr__(self, name: str) -> Any:
        if name not in _MISSING:
            return super().__getattr__(name)

        def stand_in(*_: object) -> None:
            raise NotImplementedError(f"the bundled library has no {name}")

        setattr(self, name, stand_in)
        return stand_in


def load() -> tuple[ModuleType, Any, type[Exception]]:
    """The client's module, the C++ library under it, and the base of its errors."""
    usual = ctypes.cdll
    ctypes.cdll = ctypes.LibraryLoader(_Library)
    try:
        from rocketmq import client, exceptions, ffi  # type: ignore[import-not-found] # noqa: PLC0415
    finally:
        ctypes.cdll = usual
    return client, ffi.dll, exceptions.RocketMQException


if __name__ == "__main__":
    load()  # the exit code shows whether the library can be loaded here
