"""The error for an answer that refuses a request: it names request and code as RocketMQ does."""

from __future__ import annotations

import re
from typing import Final

from replicator.errors import BrokerRefused, named
from replicator.observe.printable import printable
from replicator.protocol.codes import Request, Response
from replicator.protocol.frame import Frame

__all__ = ["code_in", "refused", "remark_in", "wrong_account"]

#: Characters of a remark. Brokers remark an exception, with the lines that led to it at most.
_REMARK: Final = 5_000
#: What brokers remark where the secret is another one, or the account is not there: ACL 1.0, and 2.0. Both have one
#: code for these and for missing rights.
_WRONG_ACCOUNT: Final = re.compile(
    r"check signature failed|no acl config for|user:\S+ is not found|no accesskey is configured"
    r"|username cannot be null",
    re.IGNORECASE,
)


def refused(address: str, request: int, answer: Frame, *, hint: str = "") -> BrokerRefused:
    """What `answer` to `request` is; its code is a `Response` where that has it."""
    remark = remark_in(answer)
    hint = wrong_account(remark) or hint
    return BrokerRefused(address, _of(Request, request), _of(Response, answer.code), remark, hint=hint)


def wrong_account(remark: str, side: str = "") -> str:
    """The way out where a broker does not know who asks; empty where its remark is about anything else.

    Args:
        side: source or target, if it is known whose broker this is.
    """
    if not _WRONG_ACCOUNT.search(remark):
        return ""
    account, secret = (f"{side}.{name}" if side else name for name in ("access_key", "secret_key"))
    return f"the access key or the secret is wrong, or neither is set: see {account} and {secret} (or its file)"


def remark_in(answer: Frame) -> str:
    """What the peer has remarked, as much of it as errors show: it gets into records, logs and terminals."""
    return printable(answer.remark[:_REMARK])


def code_in(answer: Frame) -> str:
    """The code of an answer, as errors have it: `SYSTEM_BUSY (2)`, or `code 99` of one without a name here."""
    return named(_of(Response, answer.code), "code")


def _of(codes: type[Request | Response], code: int) -> int:
    try:
        return codes(code)
    except ValueError:
        return code
