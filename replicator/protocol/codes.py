"""Request and response codes of the remoting protocol.

Names and numbers are those of `RequestCode`, `ResponseCode` and `RemotingSysResponseCode`
in apache/rocketmq.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Request", "Response"]


class Request(IntEnum):
    """What can be asked of a broker or a name server."""

    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    HEART_BEAT = 34
    GET_ALL_TOPIC_CONFIG = 21
    UPDATE_AND_CREATE_TOPIC = 17
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    GET_ALL_PRODUCER_INFO = 328
    UPDATE_BROKER_CONFIG = 25
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    GET_CONSUMER_LIST_BY_GROUP = 38
    GET_ALL_CONSUMER_OFFSET = 43
    GET_ALL_DELAY_OFFSET = 45
    CHECK_CLIENT_CONFIG = 46
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    DELETE_SUBSCRIPTIONGROUP = 207
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353
    SET_MESSAGE_REQUEST_MODE = 401
    GET_ALL_MESSAGE_REQUEST_MODE = 402
    GET_TIMER_CHECK_POINT = 60
    GET_TIMER_METRICS = 61
    PUT_KV_CONFIG = 100
    DELETE_KV_CONFIG = 102
    GET_KVLIST_BY_NAMESPACE = 219
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    UPDATE_AND_CREATE_ACL_CONFIG = 50
    DELETE_ACL_CONFIG = 51
    GET_BROKER_CLUSTER_ACL_INFO = 52
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53
    GET_BROKER_CLUSTER_ACL_CONFIG = 54
    AUTH_CREATE_USER = 3001
    AUTH_UPDATE_USER = 3002
    AUTH_DELETE_USER = 3003
    AUTH_LIST_USER = 3005
    AUTH_CREATE_ACL = 3006
    AUTH_UPDATE_ACL = 3007
    AUTH_DELETE_ACL = 3008
    AUTH_LIST_ACL = 3010
    GET_BROKER_HA_STATUS = 907
    CONTROLLER_GET_REPLICA_INFO = 1004
    UPDATE_CONTROLLER_CONFIG = 1009


class Response(IntEnum):
    """How a request ended."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206


#: The broker stored the message and says so with a warning: a flush or a slave was late.
STORED = frozenset(
    {
        Response.SUCCESS,
        Response.FLUSH_DISK_TIMEOUT,
        Response.SLAVE_NOT_AVAILABLE,
        Response.FLUSH_SLAVE_TIMEOUT,
    }
)


def is_denied(code: int, remark: str) -> bool:
    """Whether a right is missing: 4.9's ACL throws, and has no code for it (measured)."""
    return code == Response.NO_PERMISSION or is_of_acl_1(remark)


def is_of_acl_1(remark: str) -> bool:
    """Whether a broker with ACL 1.0 refuses something for want of a right."""
    return "AclException" in remark
