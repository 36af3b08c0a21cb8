"""Kafka's partition of a group as a column: :func:`muster.placement.hashing.partition_for` in Spark's own functions."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_WRAP = 1 << 32
_INT_MAX = (1 << 31) - 1


def java_string_hash(text: Column) -> Column:
    """Return ``java.lang.String.hashCode`` as bigint: signed 32 bit, over UTF-16 code units. Null for null."""
    units = F.regexp_extract_all(F.hex(F.encode(text, "UTF-16BE")), F.lit("(.{4})"), 1)
    value = F.aggregate(
        units,
        F.lit(0).cast("long"),
        lambda hashed, unit: (hashed * 31 + F.conv(unit, 16, 10).cast("long")) % _WRAP,
    )
    return F.when(value > _INT_MAX, value - _WRAP).otherwise(value)


def partition_for(group: Column, partitions: int) -> Column:
    """Return the partition of ``__consumer_offsets`` that owns the group, as int. Raises ValueError for less than 1
    partition."""
    if partitions < 1:
        raise ValueError(f"a topic has at least one partition, not {partitions}")
    value = java_string_hash(group)
    absolute = F.when(value == -_INT_MAX - 1, F.lit(0)).otherwise(F.abs(value))  # as Kafka's Utils.abs
    return (absolute % partitions).cast("int")
