"""What an operator can set: Kafka's property names, typed, checked before anything starts.

A property file, ``--set`` and flags become one mapping of names to text; :meth:`MusterConfig.from_properties`
turns it into a frozen value or a :class:`ConfigError` that names every offending property. A Kafka property
that would do nothing here is refused rather than ignored. Sources: Kafka's broker configuration reference for
names, defaults and bounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator

from muster.actors.config.groups import broker_problem
from muster.actors.config.listeners import (
    DEFAULT_PORT,
    DEFAULT_PROTOCOLS,
    SASL_PLAINTEXT,
    Listener,
    check_placeholders,
    check_ports,
    default_listeners,
    parse_advertised,
    parse_listeners,
    parse_protocols,
    read_listeners,
)
from muster.actors.config.refused import unknown_property
from muster.actors.config.types import (
    Assignors,
    Bool,
    CleanupPolicy,
    Compression,
    Double,
    Int,
    Long,
    Mechanisms,
    MigrationPolicy,
    RebalanceProtocols,
    Text,
    TimestampType,
    problems_of,
)

DEFAULT_METRICS_PORT = 9404
_OF_ONE_LISTENER = "listener.name."
_MAX_INT = 2**31 - 1
_MAX_LONG = 2**63 - 1


class ConfigError(ValueError):
    """Properties that are unknown or have a bad value. The text is one line and names each of them."""


def _bound(bound: str) -> str:
    return f"{bound} of the property without {bound[:3].lower()}, in ms, also for a group that sets its own."


def _property_name(field_name: str) -> str:
    return field_name.replace("_", ".")


class MusterConfig(BaseModel):
    """Every property with its value. Kafka's names have dots where the fields have underscores."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=_property_name)

    # topics
    num_partitions: Int = Field(1, ge=1, description="Number of partitions of a topic that is created without one.")
    auto_create_topics_enable: Bool = Field(
        True, description="Whether a topic is created when a client first requests it."
    )
    default_replication_factor: Int = Field(
        1,
        ge=1,
        le=32767,
        description="Replication factor of a topic that is created without one. Clients see it, but there is "
        "one copy, as durable as storage.path.",
    )
    max_replication_factor: Int = Field(
        32767,
        ge=1,
        le=32767,
        description="Maximum replication factor of a new topic. There is always one copy; with 1, higher "
        "factors are refused.",
    )
    delete_topic_enable: Bool = Field(True, description="Whether DeleteTopics is allowed.")
    message_max_bytes: Int = Field(1_048_588, ge=0, description="Maximum size of an accepted record batch, in bytes.")
    compression_type: Compression = Field(
        "producer",
        description="Codec in which records are stored: gzip, snappy, lz4, zstd, uncompressed, or producer: as sent.",
    )
    log_segment_bytes: Int = Field(1_073_741_824, ge=14, description="Size of a log segment file, in bytes.")
    log_retention_ms: Long | None = Field(
        None, ge=-1, description="How long records are kept, in ms; -1: forever. Overrides .minutes and .hours."
    )
    log_retention_minutes: Int | None = Field(None, ge=-1, description="As log.retention.ms; overrides .hours.")
    log_retention_hours: Int = Field(168, ge=-1, description="As log.retention.ms.")
    log_retention_bytes: Long = Field(
        -1, ge=-1, description="Size above which a partition loses old segments, in bytes; -1: no limit."
    )
    log_retention_check_interval_ms: Long = Field(
        300_000, ge=1, description="How often to look for records to be removed, in ms."
    )
    log_roll_ms: Long | None = Field(
        None, ge=1, description="Maximum age of a segment before the next one begins, in ms. Overrides .hours."
    )
    log_roll_hours: Int = Field(168, ge=1, description="As log.roll.ms.")
    log_flush_interval_messages: Long = Field(
        1,
        ge=1,
        description="Number of records after which a log is synced. 1, unlike in Kafka: every acknowledged "
        "record is synced. With more, records are acknowledged before they are synced; they survive"
        " a killed process, but not a power failure.",
    )
    log_flush_interval_ms: Long = Field(
        2**63 - 1,
        ge=0,
        description="Maximum time before a record is synced, in ms; only with log.flush.interval.messages above 1.",
    )
    log_message_timestamp_type: TimestampType = Field(
        "CreateTime", description="Whether a record's timestamp is the producer's or the time of the append."
    )
    log_cleanup_policy: CleanupPolicy = Field("delete", description="delete, compact, or both.")
    log_cleaner_enable: Bool = Field(True, description="Whether logs are cleaned (compacted).")
    log_cleaner_backoff_ms: Long = Field(
        15_000, ge=1, description="How often the cleaner looks for a log to clean, in ms."
    )
    log_cleaner_dedupe_buffer_size: Long = Field(
        134_217_728,
        ge=1 << 20,
        description="Memory for the keys of one run of the cleaner, in bytes, per actor; each key counts as "
        "160. More keys take several runs.",
    )
    log_cleaner_delete_retention_ms: Long = Field(
        86_400_000, ge=0, description="How long the cleaner keeps a tombstone that it has seen, in ms."
    )
    log_cleaner_min_cleanable_ratio: Double = Field(
        0.5, ge=0, le=1, description="Minimum share of a log, by bytes, that must be new before it is cleaned."
    )
    log_cleaner_min_compaction_lag_ms: Long = Field(
        0, ge=0, description="Minimum age of a record before it is cleaned, in ms."
    )
    log_cleaner_max_compaction_lag_ms: Long = Field(
        _MAX_LONG,
        ge=1,
        description="Age of a record after which its log is cleaned whatever its dirty ratio, in ms.",
    )
    producer_id_expiration_ms: Int = Field(
        86_400_000,
        ge=1,
        description="Time after which a partition forgets a producer that no longer writes, in ms; not while its "
        "transaction is open.",
    )

    # transactions
    transaction_partition_verification_enable: Bool = Field(
        True,
        description="Whether a partition verifies with the coordinator that a producer's transaction is open before it "
        "writes the first batch of it. Producers that follow KIP-890 part 2 always have it verified.",
    )
    add_partitions_to_txn_retry_backoff_ms: Int = Field(
        20,
        ge=1,
        description="How often a partition is added to a transaction again while the previous one is ending, in ms.",
    )
    add_partitions_to_txn_retry_backoff_max_ms: Int = Field(
        100, ge=0, description="For how long it does so before the producer gets an error, in ms."
    )

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
        45_000, ge=1, description="How long a member of a consumer group may send no heartbeat, in ms."
    )
    group_consumer_min_session_timeout_ms: Int = Field(45_000, ge=1, description=_bound("Minimum"))
    group_consumer_max_session_timeout_ms: Int = Field(60_000, ge=1, description=_bound("Maximum"))
    group_consumer_heartbeat_interval_ms: Int = Field(
        5_000, ge=1, description="How often members of consumer groups should send a heartbeat, in ms."
    )
    group_consumer_min_heartbeat_interval_ms: Int = Field(5_000, ge=1, description=_bound("Minimum"))
    group_consumer_max_heartbeat_interval_ms: Int = Field(15_000, ge=1, description=_bound("Maximum"))
    group_consumer_assignment_interval_ms: Int = Field(
        1_000, ge=0, description="Minimum time between two assignments of a consumer group, in ms."
    )
    group_consumer_min_assignment_interval_ms: Int = Field(0, ge=0, description=_bound("Minimum"))
    group_consumer_max_assignment_interval_ms: Int = Field(15_000, ge=0, description=_bound("Maximum"))
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
        600_000, ge=10_000, description="How often regular expressions of consumer groups are looked up again, in ms."
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
        5_242_880, ge=1, description="How much of __consumer_offsets is read at a time when it is loaded, in bytes."
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
        description="The level of Kafka's feature of that name, by which clients choose a protocol. 2: that of "
        "KIP-890, in which every transaction has its own epoch; 0 and 1: the one before. 0 writes records of "
        "__transaction_state that older Kafkas read, too.",
    )
    transaction_state_log_num_partitions: Int = Field(
        4,
        ge=1,
        description="Partitions of __transaction_state, each of which has a process once a transactional.id of it is "
        "used (Kafka: 50); read when the topic is created, by the first client that wants transactions.",
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
        5_242_880, ge=1, description="How much of __transaction_state is read at a time when it is loaded, in bytes."
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

    # connections
    listeners: Text = Field(
        f"PLAINTEXT://:{DEFAULT_PORT}",
        description="NAME://[HOST]:PORT with commas; further gateways on a host use the following ports, 0 picks free "
        "ones. Without HOST: loopback if Muster started Ray, else all interfaces. The first listener is the one that "
        "`muster up` prints and that Muster's own commands use; the HTTP port is on its HOST. Default with "
        "sasl.enabled.mechanisms: SASL_PLAINTEXT://:9092.",
    )
    listener_security_protocol_map: Text = Field(
        DEFAULT_PROTOCOLS,
        description="NAME:PROTOCOL with commas: the protocol of each listener, PLAINTEXT or SASL_PLAINTEXT.",
    )
    sasl_enabled_mechanisms: Mechanisms = Field(
        "",
        description="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or a comma-separated list of them: how clients log in at "
        "listeners with the protocol SASL_PLAINTEXT.",
    )
    sasl_credentials_file: Text | None = Field(
        None,
        description="Property file of the users, as written by muster user add; every node must be able to read"
        " it. Changes apply to the next login.",
    )
    proxy_protocol_enable: Bool = Field(
        False,
        description="Whether every connection begins with a PROXY protocol header, version 2, in which a load "
        "balancer gives the client's address. Only balancers may reach such a listener: the header "
        "is trusted. For one listener: listener.name.NAME.proxy.protocol.enable, NAME in lower case.",
    )
    advertised_listeners: Text | None = Field(
        None,
        description="NAME://HOST[:PORT] with commas, where clients of each listener connect to. {id} is replaced by "
        "the gateway's id, {host} by the address that it has without this property, {label:NAME} by a label of its Ray "
        "node. PORT may be 9000+{id} or {label:NAME}; if it is a number and HOST has no placeholder, it is the first "
        "gateway's and the others count up.",
    )
    broker_rack: Text | None = Field(
        None,
        description="The rack of a gateway, in which it is preferred by consumers with that client.rack; may have the "
        "placeholders of advertised.listeners: {label:rack} is what ray start --labels rack=... says of the node. "
        "none: the node's label ray.io/availability-zone, if it has one.",
    )
    socket_request_max_bytes: Int = Field(104_857_600, ge=1, description="Maximum size of a request, in bytes.")
    connections_max_idle_ms: Long = Field(600_000, ge=-1, description="When an idle connection is closed, in ms.")
    max_connections: Int = Field(
        _MAX_INT,
        ge=1,
        description="Maximum number of connections to a gateway. For one listener: listener.name.NAME.max.connections, "
        "NAME in lower case.",
    )
    fetch_max_bytes: Int = Field(57_671_680, ge=1024, description="Maximum size of the response to a Fetch, in bytes.")
    max_incremental_fetch_session_cache_slots: Int = Field(
        1000, ge=0, description="Maximum number of fetch sessions of a gateway (KIP-227); 0: clients get none."
    )
    max_request_partition_size_limit: Int = Field(
        2000, ge=1, description="Maximum number of partitions in a response to DescribeTopicPartitions (KIP-966)."
    )
    min_incremental_fetch_session_eviction_ms: Long = Field(
        120_000,
        ge=0,
        description="After how long without use a fetch session gives way to any other, in ms. Before, one that has "
        "lived so long gives way to a session of more partitions.",
    )

    # Muster
    storage_path: Text = Field("./muster-data", description="Directory for all data; shared by all nodes.")
    zookeeper_connect: Text | None = Field(
        None, description="HOST:PORT[,HOST:PORT...][/CHROOT] of a ZooKeeper; none: Muster runs its own."
    )
    gateway_count: Int | None = Field(
        None, ge=1, description="Number of gateways; none: one, or one per node of a Ray that Muster did not start."
    )
    log_actors: Int = Field(2, ge=1, description="Number of actors among which topic partitions are distributed.")
    metrics_port: Int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of the first gateway's /metrics, the others count up; 0: free ports. Where there is one "
        f"gateway on each node, all have this port. none: free ports, but {DEFAULT_METRICS_PORT} with --address and a "
        "port that is not 0.",
    )
    actor_port_range: Text | None = Field(
        None,
        description="FIRST-LAST: ports on which actors listen for gateways on other nodes, for use with a "
        "firewall. none: any free port.",
    )
    reconciler_interval_ms: Long = Field(
        10_000, ge=100, description="How often the client-to-group mapping is compared and repaired, in ms."
    )
    reconciler_max_writes_per_second: Int = Field(
        50_000, ge=1, description="Maximum number of mapping nodes that the reconciler writes per second."
    )
    reconciler_dry_run: Bool = Field(
        False,
        description="Whether the reconciler only compares and reports, and writes nothing except on muster "
        "mapping repair.",
    )
    attribution_pending_ms: Long = Field(
        60_000, ge=0, description="How long a fetch without a known group waits for attribution, in ms."
    )
    audit_interval_ms: Long = Field(
        30_000,
        ge=0,
        description="How often the bytes that commits imply are compared with the attributed bytes, in ms; 0: never.",
    )
    attribution_simple_ttl_ms: Long = Field(
        600_000,
        ge=1,
        description="How long a client that never joins is attributed to the group it commits for, in ms.",
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
        description="Length of the windows for which the table commits has a row per group and partition, in ms.",
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
        description="How often the table registrations gets a snapshot of which client consumes for which "
        "group, in ms: how far back a reader has to look.",
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
        description="How long table files stay after they were merged or their retention ended, for readers "
        "that began earlier and for streams, in ms: choose longer than the longest job, and than a "
        "stream is ever down.",
    )
    metrics_max_group_series: Int = Field(
        10_000,
        ge=0,
        description="Maximum number of series of group, topic, partition and evidence per gateway and fetch "
        "metric. Bytes of further ones are counted without their group, with the reason overflow.",
    )
    metrics_group_series_retention_ms: Long = Field(
        900_000,
        ge=1_000,
        description="How long a group must have had no client and fetched nothing before its fetch series are "
        "removed, in ms.",
    )
    metrics_kop_compatible: Bool = Field(
        False, description="Whether /metrics has kop_server_BYTES_OUT, _MESSAGE_OUT and _ENTRIES_OUT too, as KoP does."
    )
    rebalance_stuck_ms: Long = Field(
        30_000,
        ge=1,
        description="How long a phase of a rebalance may last before the coordinator's log names the members that it "
        "waits for, in ms; half the group's rebalance timeout if that is shorter.",
    )
    heartbeat_lease_enable: Bool = Field(
        True,
        description="Whether gateways answer the heartbeats of members of Stable groups themselves, and report them to "
        "the coordinator. A session may then end up to one second late while a gateway does not respond.",
    )
    offsets_standby_enable: Bool = Field(
        True,
        description="Whether a process on each node is ready to take over from coordinators, log actors and gateways "
        "that die.",
    )
    actor_liveness_timeout_ms: Long = Field(
        10_000, ge=0, description="How long an actor may fail to respond before it is considered dead, in ms; 0: never."
    )
    node_settle_ms: Long = Field(
        10_000, ge=0, description="How long a node must have been in the Ray cluster before it gets actors, in ms."
    )
    fault_injection_enable: Bool = Field(
        False,
        description="Whether faults can be injected (docs/faults.md). For test clusters only: anyone who can "
        "reach a gateway's HTTP port can then break the cluster.",
    )

    _of_one_listener: Mapping[str, str] = PrivateAttr(default_factory=dict)
    """The properties that begin with ``listener.name.``."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> MusterConfig:
        """The configuration that the properties say. ConfigError naming every property that cannot be."""
        known = property_names()
        own = {name: value for name, value in properties.items() if name.startswith(_OF_ONE_LISTENER)}
        problems = [unknown_property(name, known) for name in sorted(set(properties) - known - set(own))]
        values = {"listeners": default_listeners(properties)} if properties.get("sasl.enabled.mechanisms") else {}
        try:
            config = cls.model_validate(values | {name: properties[name] for name in properties if name in known})
            config._of_one_listener = own
            config._check_listeners()
        except ValidationError as error:
            problems += problems_of(error)
        except ValueError as error:
            problems.append(str(error))
        if problems:
            raise ConfigError("; ".join(problems))
        return config

    @property
    def properties(self) -> dict[str, Any]:
        """The properties that were set; :meth:`from_properties` makes this configuration of them again."""
        return {**self.model_dump(by_alias=True, exclude_unset=True), **self._of_one_listener}

    @field_validator("listeners")
    @classmethod
    def _names_and_places(cls, text: str) -> str:
        parse_listeners(text)
        return text

    @field_validator("listener_security_protocol_map")
    @classmethod
    def _protocols(cls, text: str) -> str:
        parse_protocols(text)
        return text

    @field_validator("advertised_listeners")
    @classmethod
    def _hosts_and_ports(cls, text: str | None) -> str | None:
        if text is not None:
            parse_advertised(text)
        return text

    @field_validator("broker_rack")
    @classmethod
    def _placeholders(cls, text: str | None) -> str | None:
        if text is not None:
            check_placeholders(text)
        return text

    @field_validator("actor_port_range")
    @classmethod
    def _range(cls, text: str | None) -> str | None:
        if text is not None:
            _port_range(text)
        return text

    @field_validator("zookeeper_connect")
    @classmethod
    def _not_empty(cls, hosts: str | None) -> str | None:
        if hosts is not None and not hosts.split("/")[0].strip(" ,"):
            raise ValueError("names no host")
        return hosts

    @field_validator("sasl_credentials_file")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        return None if path is None else str(Path(path).expanduser().absolute())

    def _check_listeners(self) -> None:
        if self.sasl_mechanisms and self.sasl_credentials_file is None:
            raise ValueError("sasl.enabled.mechanisms needs sasl.credentials.file, which muster user add writes")
        found = self.all_listeners
        needs_login = any(listener.needs_login for listener in found)
        if needs_login and not self.sasl_mechanisms:
            raise ValueError(f"listeners={self.listeners} needs sasl.enabled.mechanisms")
        if self.sasl_mechanisms and not needs_login:
            raise ValueError(
                f"sasl.enabled.mechanisms needs a listener with the protocol {SASL_PLAINTEXT}, "
                f"for example listeners={SASL_PLAINTEXT}://:{DEFAULT_PORT}; listeners={self.listeners} has none"
            )
        check_ports(found, self.gateway_count or 1)

    @model_validator(mode="after")
    def _default_replication_factor_is_allowed(self) -> MusterConfig:
        if self.default_replication_factor > self.max_replication_factor:
            raise ValueError(
                "default.replication.factor must not be greater than max.replication.factor "
                f"({self.default_replication_factor} > {self.max_replication_factor})"
            )
        return self

    @model_validator(mode="after")
    def _session_timeouts_admit_someone(self) -> MusterConfig:
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError(
                "group.min.session.timeout.ms must not be greater than group.max.session.timeout.ms "
                f"({self.group_min_session_timeout_ms} > {self.group_max_session_timeout_ms})"
            )
        return self

    @model_validator(mode="after")
    def _consumer_groups_are_in_bounds(self) -> MusterConfig:
        if (problem := broker_problem(dict(self))) is not None:
            raise ValueError(problem)
        return self

    @property
    def retention_ms(self) -> int:
        """How long records are kept, in ms, after Kafka's precedence of .ms, .minutes and .hours; -1: for ever."""
        if self.log_retention_ms is not None:
            return self.log_retention_ms
        if self.log_retention_minutes is not None:
            return self.log_retention_minutes * 60_000 if self.log_retention_minutes >= 0 else -1
        return self.log_retention_hours * 3_600_000 if self.log_retention_hours >= 0 else -1

    @property
    def roll_ms(self) -> int:
        """How old a segment may become before the next begins, in ms; .ms overrides .hours."""
        return self.log_roll_ms if self.log_roll_ms is not None else self.log_roll_hours * 3_600_000

    @property
    def sasl_mechanisms(self) -> tuple[str, ...]:
        """Of ``sasl.enabled.mechanisms``; none: clients need not log in."""
        return tuple(filter(None, self.sasl_enabled_mechanisms.split(",")))

    @property
    def all_listeners(self) -> tuple[Listener, ...]:
        """Those of ``listeners``, in their order."""
        return read_listeners(
            self.listeners,
            self.listener_security_protocol_map,
            self.advertised_listeners,
            proxy_protocol=self.proxy_protocol_enable,
            overrides=self._of_one_listener,
        )

    def first_metrics_port(self, *, on_cluster: bool) -> int:
        """Of the first gateway, or of all where each is on a node of its own; 0: free ones.

        Fixed on a cluster, whose Prometheus has a list of hosts and ports.
        """
        if self.metrics_port is not None:
            return self.metrics_port
        return DEFAULT_METRICS_PORT if on_cluster and self.all_listeners[0].port else 0

    @property
    def actor_ports(self) -> range:
        """``actor.port.range``; 0 alone where any port will do."""
        return range(1) if self.actor_port_range is None else _port_range(self.actor_port_range)


def _port_range(text: str) -> range:
    found = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text)
    if not found or not 0 < int(found[1]) <= int(found[2]) <= 65535:
        raise ValueError("is not FIRST-LAST, two ports")
    return range(int(found[1]), int(found[2]) + 1)


def property_names() -> set[str]:
    """Every property that there is."""
    return {str(field.alias) for field in MusterConfig.model_fields.values()}
