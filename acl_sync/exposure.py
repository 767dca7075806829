"""What a 5.x broker lets every account do, whatever its rights.

Request 25 changes a broker's settings, and no right is asked for it (measured: 5.3.3, 5.5.0). So whoever has any
account can switch the checks off and then make himself a Super user. A broker refuses such changes only of settings
that are in its `configBlackList`. It keeps a change, so that what it reads at its start counts after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["BLACK_LIST", "FIRST_USER", "exposed", "shows_secrets"]

#: The setting with the Super user whom a broker makes at its first start, and needs no more then.
FIRST_USER: Final = "initAuthenticationUser"
#: Settings with the secret of a Super user, whom a broker makes at its start where he is missing.
_SUPER_USERS: Final = frozenset({FIRST_USER, "innerClientAuthenticationCredentials"})

#: The settings of `AuthConfig` that decide whether a broker checks accounts and rights at all, for which requests,
#: by what, and whom it makes by itself.
_GUARDS: Final = _SUPER_USERS | {
    "authenticationEnabled",
    "authenticationMetadataProvider",
    "authenticationProvider",
    "authenticationStrategy",
    "authenticationWhitelist",
    "authorizationEnabled",
    "authorizationMetadataProvider",
    "authorizationProvider",
    "authorizationStrategy",
    "authorizationWhitelist",
    "migrateAuthFromV1Enabled",
}

#: The broker's setting that names those which no request may change, separated by semicolons.
BLACK_LIST: Final = "configBlackList"


def exposed(settings: Mapping[str, str]) -> frozenset[str]:
    """Which of a broker's guards any account may change by request 25; `settings` are those in force."""
    return _GUARDS - {*settings.get(BLACK_LIST, "").split(";")}  # a space is part of a name to the broker


def shows_secrets(settings: Mapping[str, str]) -> frozenset[str]:
    """Which of `settings`, that request 26 shows to every account, have the secret of a Super user."""
    return frozenset(name for name in _SUPER_USERS if settings.get(name, "").strip())
