"""Properties of /metrics and of the tables in Parquet. Sources as in :mod:`muster.actors.config.properties`."""

from __future__ import annotations

from pydantic import BaseModel, Field

from muster.actors.config.types import Bool, Int, Long

DEFAULT_METRICS_PORT = 9404


class MetricsProperties(BaseModel):
    """A part of :class:`muster.actors.config.properties.MusterConfig`."""

    metrics_port: Int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of the first gateway's /metrics; further gateways on a host use the following ports, and "
        "gateways on nodes of their own all use this one. 0: free ports. none: 9404, or free ports if the listener's "
        "port is 0.",
    )
    metrics_samples_flush_ms: Long = Field(
        5_000, ge=100, description="How often samples are written as Parquet, in ms."
    )
    metrics_rebalances_flush_ms: Long = Field(
        60_000, ge=100, description="How often completed rebalances are written as Parquet, in ms."
    )
    metrics_commits_flush_ms: Long = Field(
        10_000,
        ge=100,
        description="Length of the windows of the table commits, which has a row per window, group and partition, in "
        "ms.",
    )
    metrics_end_offsets_flush_ms: Long = Field(
        10_000,
        ge=100,
        description="How often a log actor records the end offsets of partitions that have changed, in ms.",
    )
    metrics_events_flush_ms: Long = Field(
        5_000,
        ge=100,
        description="How often group events, registrations, repairs, actor life cycles and faults are written "
        "as Parquet, in ms.",
    )
    metrics_registrations_snapshot_ms: Long = Field(
        21_600_000,
        ge=1_000,
        description="How often the table registrations gets a snapshot of all clients and their groups, in ms: how "
        "far back a reader has to look.",
    )
    metrics_retention_ms: Long = Field(
        2_592_000_000,
        ge=-1,
        description="How long the rows of an hour stay in the tables after its end, in ms; -1: forever.",
    )
    metrics_compaction_delay_ms: Long = Field(
        900_000,
        ge=0,
        description="Time from the end of an hour until its Parquet files are merged, in ms. Late rows are "
        "merged again.",
    )
    metrics_compaction_grace_ms: Long = Field(
        86_400_000,
        ge=0,
        description="How long table files stay after they were merged or expired, in ms, for readers that began "
        "earlier and for streams. Choose more than the longest job takes, and than a stream is ever down.",
    )
    metrics_max_group_series: Int = Field(
        10_000,
        ge=0,
        description="Maximum number of series of group, topic, partition and evidence per gateway and fetch "
        "metric. Bytes of further ones are counted without their group, with the reason overflow.",
    )
    metrics_max_client_series: Int = Field(
        10_000, ge=0, description="Maximum number of series of metrics that clients push, per gateway (KIP-714)."
    )
    metrics_group_series_retention_ms: Long = Field(
        900_000,
        ge=1_000,
        description="Time without a client and a fetch after which a group's fetch series are removed, in ms.",
    )
    metrics_kop_compatible: Bool = Field(
        False, description="Whether /metrics has kop_server_BYTES_OUT, _MESSAGE_OUT and _ENTRIES_OUT too, as KoP does."
    )
