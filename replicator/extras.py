"""What to type to install an extra of this package, from where the package itself came."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

__all__ = ["install_command"]

_PACKAGE: Final = "rocketmq-replicator"


def install_command(extra: str) -> str:
    """The command of pip: of a checkout or a wheel, if the package was installed from one on this machine."""
    editable, place = _origin()
    return f"pip install {'-e ' if editable else ''}'{place or _PACKAGE}[{extra}]'"


def _origin() -> tuple[bool, str]:
    """Whether the package is editable, and the path that it was installed from; empty if it was from an index."""
    try:
        found = json.loads(distribution(_PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return False, ""
    url = urllib.parse.urlsplit(str(found.get("url", "")))
    if url.scheme != "file":
        return False, ""
    return bool(found.get("dir_info", {}).get("editable")), urllib.request.url2pathname(url.path)
