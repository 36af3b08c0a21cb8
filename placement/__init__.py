"""Which process serves what. ``partition_for`` is Kafka's rule: a group's partition of ``__consumer_offsets``."""

from muster.placement.hashing import java_string_hash, partition_for

__all__ = ["java_string_hash", "partition_for"]
