"""Replaces itself with a command, after it has asked the kernel for a signal when its parent dies; only Linux can.

Run as a script in the child: `python -I -S parent_guard.py <parent pid> <signal> <command> …`. A preexec_fn would
run Python between fork and exec, which is unsafe beside threads; this script runs after an exec. The request
survives the second exec, and the process id stays the same.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

__all__ = ["guarded"]

_PR_SET_PDEATHSIG = 1


def guarded(number: signal.Signals) -> list[str]:
    """What comes before a command that is to get a signal when this process dies."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(int(number))]


def main(arguments: list[str]) -> None:
    parent, number, command = int(arguments[0]), int(arguments[1]), arguments[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # the parent died before the request took effect
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
