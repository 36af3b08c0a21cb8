"""Properties of Kafka's brokers that have no effect here, and are kept and shown when an admin client sets them.

Operators, Terraform modules and Kafka's own tools set them on any cluster, and stop at an error. At the start they are
refused by name (:mod:`muster.actors.config.refused`). Source: the dynamic configs of Kafka's brokers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from muster.actors.config.types import Bool, ConfigType, Double, Int, Long, kafka_problems_of, type_of

_ONE_COPY = "there is one copy, in storage.path"
_NO_REPLICATION = "there is one copy, so nothing is replicated"
_NO_POOLS = "there are no thread pools to size"
_CLEANERS = "each actor cleans its own logs, one at a time"
_NO_TIERS = "there is no tiered storage"
_MAX_LONG = 2**63 - 1
MAX_ARRAY_BYTES = 2_147_483_639
"""Largest array in Java."""
LIMIT_OF_BATCHES = "a batch may decompress to 67108864 bytes, whatever is set"


class KeptProperties(BaseModel):
    """The properties, with Kafka's defaults and bounds; the descriptions say why they have no effect."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "."))

    background_threads: Int = Field(10, ge=1, description=_NO_POOLS)
    follower_fetch_last_tiered_offset_enable: Bool = Field(False, description=_NO_TIERS)
    follower_replication_throttled_rate: Long | None = Field(None, ge=0, description=_NO_REPLICATION)
    group_coordinator_cached_buffer_max_bytes: Int = Field(
        1_048_588, ge=512 << 10, description="a batch has a buffer of its own"
    )
    leader_replication_throttled_rate: Long | None = Field(None, ge=0, description=_NO_REPLICATION)
    log_cleaner_io_buffer_load_factor: Double = Field(0.9, description=_CLEANERS)
    log_cleaner_io_buffer_size: Int = Field(524_288, ge=0, description=_CLEANERS)
    log_cleaner_io_max_bytes_per_second: Double = Field(sys.float_info.max, description=_CLEANERS)
    log_cleaner_threads: Int = Field(1, ge=0, description=_CLEANERS)
    log_index_size_max_bytes: Int = Field(10_485_760, ge=4, description="an index is as large as its segment needs")
    log_local_retention_bytes: Long = Field(-2, ge=-2, description=_NO_TIERS)
    log_local_retention_ms: Long = Field(-2, ge=-2, description=_NO_TIERS)
    log_preallocate: Bool = Field(False, description="a segment file grows as it is written")
    log_remote_copy_lag_bytes: Long = Field(-1, ge=-1, description=_NO_TIERS)
    log_remote_copy_lag_ms: Long = Field(0, ge=-1, description=_NO_TIERS)
    log_segment_delete_delay_ms: Long = Field(
        60_000, ge=0, description="files are removed at once; whoever is reading one can go on"
    )
    max_decompressed_message_bytes: Int = Field(MAX_ARRAY_BYTES, ge=1, le=MAX_ARRAY_BYTES, description=LIMIT_OF_BATCHES)
    min_insync_replicas: Int = Field(1, ge=1, description=_ONE_COPY)
    num_io_threads: Int = Field(8, ge=1, description=_NO_POOLS)
    num_network_threads: Int = Field(3, ge=1, description=_NO_POOLS)
    num_recovery_threads_per_data_dir: Int = Field(2, ge=1, description=_NO_POOLS)
    num_replica_fetchers: Int = Field(1, ge=1, description=_NO_REPLICATION)
    remote_fetch_max_wait_ms: Int = Field(500, ge=1, description=_NO_TIERS)
    remote_list_offsets_request_timeout_ms: Long = Field(30_000, ge=1, description=_NO_TIERS)
    remote_log_index_file_cache_total_size_bytes: Long = Field(1 << 30, ge=1, description=_NO_TIERS)
    remote_log_manager_copier_thread_pool_size: Int = Field(10, ge=1, description=_NO_TIERS)
    remote_log_manager_copy_max_bytes_per_second: Long = Field(_MAX_LONG, ge=1, description=_NO_TIERS)
    remote_log_manager_expiration_thread_pool_size: Int = Field(10, ge=1, description=_NO_TIERS)
    remote_log_manager_fetch_max_bytes_per_second: Long = Field(_MAX_LONG, ge=1, description=_NO_TIERS)
    remote_log_manager_follower_thread_pool_size: Int = Field(2, ge=1, description=_NO_TIERS)
    remote_log_reader_threads: Int = Field(10, ge=1, description=_NO_TIERS)
    replica_alter_log_dirs_io_max_bytes_per_second: Long | None = Field(
        None, ge=0, description="there is one log directory, storage.path"
    )
    unclean_leader_election_enable: Bool = Field(False, description="there is one copy, so no leader lacks records")


KEPT: Mapping[str, ConfigType] = {str(field.alias): type_of(field) for field in KeptProperties.model_fields.values()}
"""Their names and types."""


def kept_errors(properties: Mapping[str, str]) -> list[str]:
    """Return the errors in kept properties, in Kafka's words."""
    try:
        KeptProperties.model_validate({name: value for name, value in properties.items() if name in KEPT})
    except ValidationError as error:
        return kafka_problems_of(error, KEPT)
    return []
