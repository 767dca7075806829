"""Who may do what over REST and on the page for people, by token, and from where. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from replicator.settings.clusters import is_loopback

__all__ = [
    "OPEN",
    "READING",
    "Role",
    "Tokens",
    "foreign_form",
    "foreign_host",
    "foreign_origin",
    "is_page",
    "required",
    "takes_password",
]

#: Paths that need no token: Prometheus and orchestrators have none.
OPEN: Final = frozenset({"/metrics", "/health/live", "/health/ready"})
#: Methods that change nothing.
READING: Final = ("GET", "HEAD", "OPTIONS")

#: What changes something and needs no admin.
_OPERATE: Final = re.compile(
    r"/connectors/(stop|pause|resume)/all"
    r"|/connectors/[^/]+/(stop|pause|resume|restart|rates|apply|failover|tasks/.+/restart)"
    r"|/page/connectors/[^/]+/(stop|pause|resume|restart|rates|restart-task|resend|failover)"
    r"|/plugin/reload|/log/level"
)
#: Under which the page for people has all but its first view.
_PAGE: Final = "/page/"
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


class Role(IntEnum):
    """What a token is good for; a higher role may do all that the lower ones may."""

    READ = 1
    OPERATE = 2
    ADMIN = 3


def is_page(path: str) -> bool:
    """Whether the page for people answers, not REST."""
    return path == "/" or path.startswith(_PAGE)


def takes_password(path: str) -> bool:
    """Whether the token may come as a password: a browser sends no bearer tokens. REST proper takes no passwords,
    which a browser would send along with requests that a page of another site has caused.
    """
    return is_page(path) or path == "/events"


def required(method: str, path: str) -> Role:
    """The role that a request needs.

    To read: all that changes nothing. To operate: the states and rates of connectors, syncs, failovers, the log
    level. Only an admin does all else: creates, changes and deletes connectors, and gives up brokers.
    """
    if method in READING or path == "/plugin/config/validate":
        return Role.READ
    return Role.OPERATE if _OPERATE.fullmatch(path) else Role.ADMIN


@dataclass(slots=True)
class Tokens:
    """The token of each role that has one. All that ask for tokens share one object."""

    admin: str | None = field(default=None, repr=False)
    operate: str | None = field(default=None, repr=False)
    read: str | None = field(default=None, repr=False)

    def renew(self, fresh: Tokens) -> None:
        """From now on requests must carry those of `fresh`."""
        self.admin, self.operate, self.read = fresh.admin, fresh.operate, fresh.read

    def __bool__(self) -> bool:
        return bool(self.admin or self.operate or self.read)

    def role_of(self, authorization: str, *, password: bool = False) -> Role | None:
        """The role of who sends this header; None if the token in it is not known here.

        Args:
            password: whether the token may also be the password of HTTP Basic, with any user name.
        """
        scheme, _, given = authorization.partition(" ")
        if password and scheme.lower() == "basic":
            scheme, given = "bearer", _password(given.strip())
        offered = _digest(given.strip())
        found = None
        for role, token in ((Role.READ, self.read), (Role.OPERATE, self.operate), (Role.ADMIN, self.admin)):
            if token is not None and hmac.compare_digest(offered, _digest(token)):
                found = role
        return found if scheme.lower() == "bearer" else None


def _password(credentials: str) -> str:
    try:
        decoded = base64.b64decode(credentials, validate=True).decode("latin-1")
    except (binascii.Error, ValueError):
        return ""
    return decoded.partition(":")[2]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()


def foreign_host(host: str, ours: str) -> bool:
    """Whether a browser may have been led here under a name that is not ours, where no token is asked for.

    Args:
        host: the header; empty where there is none, which no browser leaves out.
        ours: the address that is served.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return bool(host)
    name = found[1].strip("[]").lower()
    return not is_loopback(name) and name != ours.lower()


def foreign_origin(method: str, host: str, origin: str | None, site: str | None) -> bool:
    """Whether a page of another site has sent a request: by its header `Origin`, or `Sec-Fetch-Site`."""
    if origin is not None:
        return origin.partition("://")[2].lower() != host.lower()
    return method not in READING and site not in (None, "same-origin", "none")


def foreign_form(origin: str | None, site: str | None) -> bool:
    """Whether nothing says that a form is one of ours: its sender's password comes by itself, whoever made it."""
    return origin is None and site != "same-origin"
