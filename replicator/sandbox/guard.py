"""Replaces itself with a command, after it has asked the kernel to kill it when its parent dies.

Run as a script in the child: `python -I -S guard.py <parent pid> <command> …`. A preexec_fn would run
Python between fork and exec, which is unsafe beside threads; this script runs after an exec. The
request survives the second exec, and the process id stays the same.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, command = int(arguments[0]), arguments[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # the parent died before the request took effect
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
