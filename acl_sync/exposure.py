"""What a 5.x broker lets every account do, whatever its rights.

Request 25 changes a broker's settings, and no right is asked for it (measured: 5.3.3, 5.5.0). So whoever has any
account can switch the checks off and then make himself a Super user. A broker refuses such changes only of settings
that are in its `configBlackList`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["BLACK_LIST", "exposed"]

#: The settings that decide whether a broker checks accounts and rights at all, and for which requests.
_GUARDS: Final = (
    "authenticationEnabled",
    "authenticationWhitelist",
    "authorizationEnabled",
    "authorizationWhitelist",
)

#: The broker's setting that names those which no request may change, separated by semicolons.
BLACK_LIST: Final = "configBlackList"


def exposed(settings: Mapping[str, str]) -> frozenset[str]:
    """Which of a broker's guards any account may change by request 25; `settings` are those in force."""
    listed = {name.strip() for name in settings.get(BLACK_LIST, "").split(";")}
    return frozenset(_GUARDS) - listed
