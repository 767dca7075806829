"""Settings of brokers that keep messages, queues or settings otherwise than in the usual files."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tests.support.narrow import TINY_FILES

__all__ = ["CONFIG_V2", "ONE_DATABASE", "ROCKSDB", "TIERED", "TIMERS", "TRANSACTIONS"]

#: Queues, topics, groups and their offsets are in RocksDB.
ROCKSDB: Final = MappingProxyType({"storeType": "defaultRocksDB"})
#: As with `ROCKSDB`, and what is set and consumed is in one database, in the newer form (5.5).
CONFIG_V2: Final = MappingProxyType(ROCKSDB | {"configManagerVersion": "v2"})
#: As with `ROCKSDB`, and all that is set and consumed is in one database, in the form of before (5.5).
ONE_DATABASE: Final = MappingProxyType(ROCKSDB | {"useSingleRocksDBForAllConfigs": "true"})
#: Half messages of transactions are in RocksDB (5.5).
TRANSACTIONS: Final = MappingProxyType({"transRocksDBEnable": "true"})
#: Messages of the timer are in RocksDB (5.5).
TIMERS: Final = MappingProxyType({"timerRocksDBEnable": "true"})
#: Messages are copied to a second store, where they are found when their commit log is deleted.
TIERED: Final = MappingProxyType(
    TINY_FILES
    | {
        "messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore",
        "tieredBackendServiceProvider": "org.apache.rocketmq.tieredstore.provider.PosixFileSegment",
        "tieredStoreGroupCommitTimeout": "300",
    }
)
