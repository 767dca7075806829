"""Exit codes of the command line: each has one meaning, whatever the command."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """A second SIGINT or SIGTERM ends a worker with 128 + its number beside these."""

    #: Done; a worker: drained after SIGTERM or SIGINT, or asked to stop before it had started.
    OK = 0
    #: A bug.
    BUG = 1
    #: Unknown flag or command (as click and getopt have it).
    USAGE = 2
    #: A cluster, a worker, a port or a directory cannot be used; nothing was written to either cluster.
    UNUSABLE = 3
    #: A worker was asked to stop, and could not send all that it had pulled within `drain_timeout`.
    NOT_DRAINED = 4
    #: The command ran, and what it reports is not as it should be, not complete, or not known.
    NOT_AS_EXPECTED = 5
    #: A setting or an argument is wrong (sysexits' EX_CONFIG).
    BAD_CONFIG = 78
