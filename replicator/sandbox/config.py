"""The files a RocketMQ process reads before it starts: broker.conf, namesrv.conf, ACL accounts, logging."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from replicator.sandbox.spec import ClusterSpec
from replicator.sandbox.tls import TlsFiles

__all__ = ["ACCESS_KEY", "SECRET_KEY", "broker", "logging_4x", "nameserver", "proxy"]

ACCESS_KEY = "sandboxadmin"
SECRET_KEY = "sandboxsecret"  # noqa: S105 - of throw-away clusters on loopback

_AUTHENTICATION = "org.apache.rocketmq.auth.authentication.provider"
_AUTHORIZATION = "org.apache.rocketmq.auth.authorization.provider"

_PLAIN_ACL = f"""\
globalWhiteRemoteAddresses: []
accounts:
- accessKey: {ACCESS_KEY}
  secretKey: {SECRET_KEY}
  whiteRemoteAddress:
  admin: true
"""

_LOGBACK = """\
<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{path}</file>
    <encoder><pattern>%d{{yyyy-MM-dd HH:mm:ss.SSS}} %-5p %t - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


def nameserver(home: Path, *, spec: ClusterSpec, port: int, controller_port: int | None = None) -> Path:
    """Write the name server's files below `home`; the path of its configuration.

    Args:
        controller_port: where its controller listens; None: it has none.
    """
    settings = {"listenPort": str(port)}
    if controller_port is not None:
        settings |= {
            "enableControllerInNamesrv": "true",
            "controllerDLegerGroup": spec.name,
            "controllerDLegerPeers": f"n0-127.0.0.1:{controller_port}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": str(home / "controller"),
            "mappedFileSize": "4194304",  # of its log; the default maps 1 GB
        }
    if not spec.version.startswith("4."):
        settings["bindAddress"] = "127.0.0.1"
    return _write(home / "conf" / "namesrv.conf", _lines(settings))


def broker(
    home: Path, *, spec: ClusterSpec, name: str, namesrv: str, port: int, slave: bool, controller: str | None = None
) -> Path:
    """Write a broker's files below `home`; the path of its configuration.

    Args:
        controller: the address of the controller that decides whether it is the master; None: `slave` does.
    """
    settings = {
        "brokerClusterName": spec.name,
        "brokerName": name,
        "brokerId": "1" if slave else "0",
        "brokerRole": "SLAVE" if slave else "ASYNC_MASTER",
        "flushDiskType": "ASYNC_FLUSH",
        "brokerIP1": spec.broker_ip,
        "brokerIP2": "127.0.0.1",  # replication between master and slave bypasses any proxy
        "listenPort": str(port),
        "haListenPort": str(port - 1),
        "namesrvAddr": namesrv,
        "storePathRootDir": str(home / "store"),
        "storePathCommitLog": str(home / "store" / "commitlog"),
        "autoCreateTopicEnable": "false",
        "enablePropertyFilter": "true",
        "diskMaxUsedSpaceRatio": "95",
        # Until brokers register again with a restarted name server; 10 s is the minimum.
        "registerNameServerPeriod": "10000",
        # Small files: the defaults map 1 GB and more per broker.
        "mappedFileSizeCommitLog": "67108864",
        "mappedFileSizeConsumeQueue": "600000",
        "maxIndexNum": "100000",
        "maxHashSlotNum": "20000",
        # 5.x brokers flush their 38 MB of timer wheel byte by byte, by default every second, which
        # takes a fifth of a core in an idle broker.
        "timerFlushIntervalMs": "60000",
        # They also spin on a core for this long when they start; the default is 3 s.
        "transactionMetricFlushInterval": "300",
    }
    if slave:
        # Without it a 5.x slave answers every pull with "system busy".
        settings["slaveReadEnable"] = "true"
    if controller is not None:
        settings |= _replica(controller)
    if not spec.version.startswith("4."):
        settings["bindAddress"] = "127.0.0.1"
    if spec.acl == "1.0":
        settings["aclEnable"] = "true"
        _write(home / "conf" / "plain_acl.yml", _PLAIN_ACL)
    elif spec.acl == "2.0":
        settings |= _acl_2()
    return _write(home / "conf" / "broker.conf", _lines(settings | dict(spec.properties)))


def proxy(home: Path, *, spec: ClusterSpec, namesrv: str, port: int, tls: TlsFiles | None = None) -> Path:
    """Write a Proxy's files below `home`; the path of its configuration. gRPC at `port`, remoting at the next.

    Args:
        tls: what it proves itself with. Without it has a certificate of its own making, as by default.
    """
    settings = {
        "rocketMQClusterName": spec.name,
        "proxyClusterName": spec.name,
        "proxyName": f"{spec.name}-proxy",
        "proxyMode": "CLUSTER",
        "namesrvAddr": namesrv,
        "grpcServerPort": port,
        "remotingListenPort": port + 1,
        "localServeAddr": "127.0.0.1",
        # Until it knows of a new topic or a change of its route; the default is 20 s.
        "topicRouteServiceCacheExpiredSeconds": 2,
        "topicRouteServiceCacheRefreshSeconds": 1,
        "topicConfigCacheExpiredSeconds": 2,
        "topicConfigCacheRefreshSeconds": 1,
        "subscriptionGroupConfigCacheExpiredSeconds": 2,
        "subscriptionGroupConfigCacheRefreshSeconds": 1,
    }
    if tls is not None:  # here, since it overrides the properties that brokers read
        settings |= {
            "tlsTestModeEnable": False,
            "tlsKeyPath": str(tls.server_key),
            "tlsCertPath": str(tls.server_cert),
        }
    return _write(home / "conf" / "rmq-proxy.json", json.dumps(settings, indent=1) + "\n")


def logging_4x(home: Path) -> None:
    """4.x exits immediately without these two files; 5.x has them inside its jars."""
    for process in ("broker", "namesrv"):
        text = _LOGBACK.format(path=home / "logs" / f"{process}.log")
        _write(home / "conf" / f"logback_{process}.xml", text)


def _replica(controller: str) -> dict[str, str]:
    """What makes a broker one of the replicas among which `controller` elects the master."""
    return {
        "enableControllerMode": "true",
        "controllerAddr": controller,
        "brokerRole": "SLAVE",  # until it is elected
        "brokerId": "-1",  # which the controller gives
        "allAckInSyncStateSet": "true",
        "inSyncReplicas": "2",
        "minInSyncReplicas": "1",
        "slaveReadEnable": "true",
        # By default they ask every 5 s who the master is, and which replicas are in sync.
        "syncBrokerMetadataPeriod": "1000",
        "checkSyncStateSetPeriod": "1000",
    }


def _acl_2() -> dict[str, str]:
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{_AUTHENTICATION}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{_AUTHENTICATION}.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": json.dumps({"username": ACCESS_KEY, "password": SECRET_KEY}),
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}),
        "authorizationEnabled": "true",
        "authorizationProvider": f"{_AUTHORIZATION}.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{_AUTHORIZATION}.LocalAuthorizationMetadataProvider",
    }


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
