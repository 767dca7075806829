"""Signatures of requests, the same for ACL 1.0 and 2.0.

HMAC-SHA1 over the values of all extension fields sorted by name, then the body; `AccessKey` is among
the fields, `Signature` is not. Source: `AclUtils.combineRequestContent` and `AclSigner` in
apache/rocketmq.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable, Mapping

__all__ = ["sign"]


def sign(fields: Mapping[str, str], body: Iterable[bytes], *, access_key: str, secret_key: str) -> dict[str, str]:
    """`fields` with `AccessKey` and `Signature` added; `body` comes in the pieces that will be sent."""
    signed = {**fields, "AccessKey": access_key}
    digest = hmac.new(secret_key.encode(), digestmod="sha1")
    digest.update("".join(signed[name] for name in sorted(signed)).encode())
    for piece in body:
        digest.update(piece)
    signed["Signature"] = base64.b64encode(digest.digest()).decode()
    return signed
