"""Exit codes of the command line: each has one meaning, whatever the command."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = ["MEANINGS", "ExitCode"]


class ExitCode(IntEnum):
    """A second SIGINT or SIGTERM ends a worker with 128 + its number beside these."""

    OK = 0
    BUG = 1
    #: As click and getopt have it.
    USAGE = 2
    UNUSABLE = 3
    NOT_DRAINED = 4
    NOT_AS_EXPECTED = 5
    REFUSED = 6
    UNANSWERED = 7
    #: EX_CONFIG of sysexits.h.
    BAD_CONFIG = 78
    #: 128 + SIGPIPE, as shells have it.
    OUTPUT_CLOSED = 141


#: As the documents have them.
MEANINGS: Final = {
    ExitCode.OK: "done; a worker: drained after SIGTERM or SIGINT, or asked to stop before it had started",
    ExitCode.BUG: "a bug, please report it",
    ExitCode.USAGE: "unknown flag or command, or a value that is not of the flag's kind",
    ExitCode.UNUSABLE: "a cluster, a worker, a port or the store path cannot be used; a worker that could not start"
    " has written nothing to either cluster, and a job continues when it is run again",
    ExitCode.NOT_DRAINED: "it was asked to stop, and not all that was pulled could be sent within `drain_timeout`;"
    " the next owner copies it",
    ExitCode.NOT_AS_EXPECTED: "the command ran, and what it reports is not as it should be, not complete or not"
    " known: differences, not ready, queues that failed, brokers that did not answer",
    ExitCode.REFUSED: "a worker refused the request, or could not carry it out: the message says why",
    ExitCode.UNANSWERED: "a worker has not answered the request in time, and may still be at work on it",
    ExitCode.BAD_CONFIG: "a setting, an argument or a file that it names cannot be used; every mistake is named,"
    " one a line",
    ExitCode.OUTPUT_CLOSED: "whoever read what the command prints has closed it, as `head` does",
}
