"""Properties of groups and transactions. Sources as in :mod:`muster.actors.config.properties`."""

from __future__ import annotations

from pydantic import BaseModel, Field

from muster.actors.config.types import Assignors, Bool, Int, Long, MigrationPolicy, RebalanceProtocols

_MAX_INT = 2**31 - 1


def _bound(bound: str, config: str) -> str:
    return f"{bound} bound of group.consumer.{config}, also for groups that override it."


class CoordinatorProperties(BaseModel):
    """A part of :class:`muster.actors.config.properties.MusterConfig`."""

    # groups
    group_min_session_timeout_ms: Int = Field(
        6_000, description="Minimum session timeout of a member, in ms, inclusive."
    )
    group_max_session_timeout_ms: Int = Field(
        1_800_000, description="Maximum session timeout of a member, in ms, inclusive."
    )
    group_initial_rebalance_delay_ms: Int = Field(
        3_000, description="How long an empty group waits for more members before its first rebalance, in ms."
    )
    group_max_size: Int = Field(_MAX_INT, ge=1, description="Maximum number of members in a group.")
    group_coordinator_append_linger_ms: Int = Field(
        -1,
        ge=-1,
        description="How long a coordinator's records wait for more records to share their batch, in ms; -1: "
        "only while the disk makes them wait anyway.",
    )
    group_coordinator_rebalance_protocols: RebalanceProtocols = Field(
        "classic,consumer", description="Rebalance protocols that groups may use: classic, consumer."
    )
    group_consumer_session_timeout_ms: Int = Field(
        45_000, ge=1, description="Time without a heartbeat after which a member of a consumer group is removed, in ms."
    )
    group_consumer_min_session_timeout_ms: Int = Field(45_000, ge=1, description=_bound("Lower", "session.timeout.ms"))
    group_consumer_max_session_timeout_ms: Int = Field(60_000, ge=1, description=_bound("Upper", "session.timeout.ms"))
    group_consumer_heartbeat_interval_ms: Int = Field(
        5_000, ge=1, description="How often members of consumer groups should send a heartbeat, in ms."
    )
    group_consumer_min_heartbeat_interval_ms: Int = Field(
        5_000, ge=1, description=_bound("Lower", "heartbeat.interval.ms")
    )
    group_consumer_max_heartbeat_interval_ms: Int = Field(
        15_000, ge=1, description=_bound("Upper", "heartbeat.interval.ms")
    )
    group_consumer_assignment_interval_ms: Int = Field(
        1_000, ge=0, description="Minimum time between two assignments of a consumer group, in ms."
    )
    group_consumer_min_assignment_interval_ms: Int = Field(
        0, ge=0, description=_bound("Lower", "assignment.interval.ms")
    )
    group_consumer_max_assignment_interval_ms: Int = Field(
        15_000, ge=0, description=_bound("Upper", "assignment.interval.ms")
    )
    group_consumer_max_size: Int = Field(_MAX_INT, ge=1, description="Maximum number of members in a consumer group.")
    group_consumer_assignors: Assignors = Field(
        "uniform,range", description="Assignors that members may choose: uniform, range. The first is the default."
    )
    group_consumer_migration_policy: MigrationPolicy = Field(
        "bidirectional",
        description="Which groups with members may change their protocol: bidirectional, upgrade (to consumer), "
        "downgrade (to classic) or disabled.",
    )
    group_consumer_regex_refresh_interval_ms: Int = Field(
        600_000,
        ge=10_000,
        description="How often regular expressions of consumer groups are matched with the topics again, in ms.",
    )
    offset_metadata_max_bytes: Int = Field(
        4_096, description="Maximum length of the metadata of a committed offset, in UTF-16 units."
    )
    offsets_topic_num_partitions: Int = Field(
        50, ge=1, description="Partitions of __consumer_offsets; read when the cluster is first started."
    )
    offsets_topic_replication_factor: Int = Field(
        3,
        ge=1,
        le=32767,
        description="Replication factor of __consumer_offsets, as default.replication.factor; read when the cluster is "
        "first started.",
    )
    offsets_topic_segment_bytes: Int = Field(
        104_857_600, ge=14, description="Size of a segment file of __consumer_offsets, in bytes."
    )
    offsets_topic_compression_codec: Int = Field(
        0,
        ge=0,
        le=4,
        description="Codec of the records that coordinators write to __consumer_offsets: 0 none, 1 gzip, 2 "
        "snappy, 3 lz4, 4 zstd.",
    )
    offsets_load_buffer_size: Int = Field(
        5_242_880, ge=1, description="Bytes of __consumer_offsets that are read at a time when it is loaded."
    )
    offsets_retention_minutes: Int = Field(10_080, ge=1, description="How long unused offsets are kept, in minutes.")
    offsets_retention_check_interval_ms: Long = Field(
        600_000, ge=1, description="How often to look for expired offsets, in ms."
    )
    offsets_commit_timeout_ms: Int = Field(
        5_000, ge=1, description="How long a coordinator's write may take before it fails, in ms."
    )

    # transactions
    transaction_version: Int = Field(
        2,
        ge=0,
        le=2,
        description="Level of Kafka's feature of that name, by which clients choose a protocol. 2: KIP-890, with an "
        "epoch for every transaction; 0 and 1: the protocol before. With 0, older Kafkas can read the records of "
        "__transaction_state, too.",
    )
    transaction_state_log_num_partitions: Int = Field(
        4,
        ge=1,
        description="Partitions of __transaction_state (Kafka: 50), each with a process once a transactional.id of it "
        "is used; read when the topic is created, by the first client that wants transactions.",
    )
    transaction_state_log_replication_factor: Int = Field(
        3,
        ge=1,
        le=32767,
        description="Replication factor of __transaction_state, as default.replication.factor; read when the topic is "
        "created.",
    )
    transaction_state_log_segment_bytes: Int = Field(
        104_857_600, ge=14, description="Size of a segment file of __transaction_state, in bytes."
    )
    transaction_state_log_load_buffer_size: Int = Field(
        5_242_880, ge=1, description="Bytes of __transaction_state that are read at a time when it is loaded."
    )
    transaction_max_timeout_ms: Int = Field(
        900_000, ge=1, description="Maximum transaction.timeout.ms of a producer, in ms."
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: Int = Field(
        10_000, ge=1, description="How often to abort transactions that have timed out, in ms."
    )
    transactional_id_expiration_ms: Int = Field(
        604_800_000, ge=1, description="Time after which a transactional.id without transactions is forgotten, in ms."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: Int = Field(
        3_600_000, ge=1, description="How often to look for transactional.ids to forget, in ms."
    )
    transaction_partition_verification_enable: Bool = Field(
        True,
        description="Whether a partition verifies with the coordinator that a producer's transaction is open before "
        "it writes the transaction's first batch. Always so for producers that follow KIP-890 part 2.",
    )
    add_partitions_to_txn_retry_backoff_ms: Int = Field(
        20,
        ge=1,
        description="Pause between two attempts to add a partition to a transaction while the previous transaction is "
        "ending, in ms.",
    )
    add_partitions_to_txn_retry_backoff_max_ms: Int = Field(
        100,
        ge=0,
        description="How long adding a partition to a transaction is tried before the producer gets an error, in ms.",
    )
