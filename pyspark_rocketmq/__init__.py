"""Where PySpark finds the data source `rocketmq`: in every package `pyspark_…`, when a session needs its first one.

An error in one of these packages would be one of all data sources, so nothing is imported here before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Topics of a RocketMQ cluster, as docs/SPARK.md describes them."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> Any:
        return self._whole().schema()

    def reader(self, schema: StructType) -> Any:
        return self._whole().reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return self._whole().writer(schema, overwrite)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        return self._whole().streamReader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        return self._whole().streamWriter(schema, overwrite)

    def _whole(self) -> DataSource:
        try:
            from replicator.spark.source.datasource import RocketMQDataSource  # noqa: PLC0415
        except ImportError as error:
            raise ImportError(
                f"the data source rocketmq lacks a package ({error}): pip install 'rocketmq-replicator[spark]'"
            ) from None
        return RocketMQDataSource(self.options)
