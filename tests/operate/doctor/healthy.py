"""A broker with which all is well."""

from __future__ import annotations

from replicator.operate.doctor.facts import Facts

__all__ = ["HEALTHY", "healthy"]

HEALTHY = Facts(
    {
        "maxMessageSize": "4194304",
        "brokerPermission": "6",
        "fileReservedTime": "72",
        "enablePropertyFilter": "true",
        "timerWheelEnable": "true",
        "timerMaxDelaySec": "259200",
    },
    {
        "brokerVersionDesc": "V5_3_3",
        "commitLogDiskRatio": "0.42",
        "bootTimestamp": "0",
        "runtime": "[ 0 days, 0 hours, 0 minutes, 10 seconds ]",
    },
    (10_400, 10_410),
)


def healthy(**settings: str) -> Facts:
    """Like it but for some settings."""
    return Facts({**HEALTHY.settings, **settings}, HEALTHY.runtime, HEALTHY.asked)
