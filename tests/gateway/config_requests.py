"""Requests that alter configs, and Kafka 4's responses; tests/conformance/test_configs.py compares with Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.serving import Client

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
CREATE, DESCRIBE, ALTER, INCREMENTAL = 19, 32, 33, 44

Change = tuple[str, int, str | None]


def incremental(
    client: Client, *resources: tuple[int, str, Sequence[Change]], version: int = 1, **named: Any
) -> list[Any]:
    """Alter configs incrementally; return the result for each resource."""
    entries = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [
                {"name": each, "config_operation": operation, "value": value} for each, operation, value in changes
            ],
        }
        for kind, name, changes in resources
    ]
    response = client.exchange(INCREMENTAL, version, {"resources": entries, "validate_only": False, **named})
    assert [(each.resource_type, each.resource_name) for each in response.responses] == [each[:2] for each in resources]
    return list(response.responses)


def replace(
    client: Client, *resources: tuple[int, str, dict[str, str | None]], version: int = 2, **named: Any
) -> list[Any]:
    """Replace configs by AlterConfigs; return the result for each resource."""
    entries = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": each, "value": value} for each, value in configs.items()],
        }
        for kind, name, configs in resources
    ]
    response = client.exchange(ALTER, version, {"resources": entries, "validate_only": False, **named})
    return list(response.responses)


class Case(NamedTuple):
    """The name ``THE_TOPIC`` is replaced by that of an existing topic."""

    kind: int
    name: str
    changes: list[Change]
    error: ErrorCode
    message: str | None = None
    """Kafka's words, where Muster has the same."""


THE_TOPIC = "the topic"
_RETENTION: Change = ("retention.ms", SET, "1")
CASES = [
    Case(TOPIC, THE_TOPIC, [("no.such", DELETE, None)], ErrorCode.none),
    Case(TOPIC, THE_TOPIC, [("flush.ms", DELETE, "whatever")], ErrorCode.none),
    Case(TOPIC, THE_TOPIC, [], ErrorCode.none),
    Case(TOPIC, THE_TOPIC, [("cleanup.policy", SUBTRACT, "what it is not")], ErrorCode.none),
    Case(TOPIC, THE_TOPIC, [("cleanup.policy", APPEND, "what cannot be")], ErrorCode.invalid_config),
    Case(TOPIC, THE_TOPIC, [("no.such", SET, "1")], ErrorCode.invalid_config, "Unknown topic config name: no.such"),
    Case(TOPIC, THE_TOPIC, [("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
    Case(
        TOPIC,
        THE_TOPIC,
        [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "9")],
        ErrorCode.invalid_config,
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)",
    ),
    Case(TOPIC, THE_TOPIC, [("retention.ms", SET, None)], ErrorCode.invalid_request),
    Case(TOPIC, THE_TOPIC, [("cleanup.policy", APPEND, None)], ErrorCode.invalid_request),
    Case(TOPIC, THE_TOPIC, [_RETENTION, ("retention.ms", SET, "2")], ErrorCode.invalid_request),
    Case(TOPIC, "nobody", [_RETENTION], ErrorCode.unknown_topic_or_partition),
    Case(TOPIC, "nobody", [("retention.ms", SET, "x")], ErrorCode.invalid_config),
    Case(TOPIC, "no/body", [_RETENTION], ErrorCode.invalid_topic_exception),
    Case(TOPIC, "", [_RETENTION], ErrorCode.invalid_request),
    Case(0, "t", [_RETENTION], ErrorCode.invalid_request),
    Case(99, "t", [_RETENTION], ErrorCode.invalid_request),
    Case(BROKER, "", [("listeners", SET, "PLAINTEXT://:1")], ErrorCode.invalid_request),
    Case(BROKER, "", [("log.retention.hours", SET, "1")], ErrorCode.invalid_request),
    Case(BROKER, "", [("listeners", DELETE, None)], ErrorCode.none),
    Case(BROKER, "", [("log.retention.ms", SET, "x")], ErrorCode.invalid_request),
    Case(BROKER, "", [("log.cleaner.min.cleanable.ratio", SET, "5")], ErrorCode.invalid_request),
    Case(BROKER, "", [("log.retention.ms", SET, None)], ErrorCode.invalid_request),
    Case(BROKER, "", [("log.retention.ms", APPEND, "1")], ErrorCode.invalid_config),
    Case(BROKER, "1", [("max.connections", SET, "x")], ErrorCode.invalid_request),
    Case(BROKER, "77", [("max.connections", SET, "500")], ErrorCode.invalid_request),
    Case(BROKER, "x", [("max.connections", SET, "500")], ErrorCode.invalid_request),
    Case(GROUP, "g", [("consumer.session.timeout.ms", SET, "10")], ErrorCode.invalid_config),
    Case(GROUP, "g", [("consumer.session.timeout.ms", SET, "70000")], ErrorCode.invalid_config),
    Case(GROUP, "g", [("consumer.heartbeat.interval.ms", SET, "10")], ErrorCode.invalid_config),
    Case(GROUP, "g", [("consumer.heartbeat.interval.ms", SET, "16000")], ErrorCode.invalid_config),
    Case(GROUP, "g", [("no.such", SET, "1")], ErrorCode.invalid_config),
    Case(GROUP, "g", [("no.such", DELETE, None)], ErrorCode.none),
    Case(GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], ErrorCode.invalid_request),
]


def _refused(name: str, value: str, says: str, shown: str | None = None) -> Case:
    message = f"Invalid value {value if shown is None else shown} for configuration {name}: {says}"
    return Case(TOPIC, THE_TOPIC, [(name, SET, value)], ErrorCode.invalid_config, message)


_REPLICAS = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
CASES += [
    _refused("retention.ms", "-5", "Value must be at least -1"),
    _refused("retention.ms", "abc", "Not a number of type LONG"),
    _refused("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
    _refused("compression.lz4.level", "18", "Value must be no more than 17"),
    _refused("compression.zstd.level", "-131073", "Value must be at least -131072"),
    _refused("file.delete.delay.ms", "-1", "Value must be at least 0"),
    _refused("index.interval.bytes", "x", "Not a number of type INT"),
    _refused("segment.jitter.ms", "-1", "Value must be at least 0"),
    _refused("remote.copy.lag.ms", "-2", "Value must be at least -1"),
    _refused("max.decompressed.message.bytes", "2147483640", "Value must be no more than 2147483639"),
    _refused("segment.index.bytes", "3", "Value must be at least 4"),
    _refused("max.message.bytes", "2147483648", "Not a number of type INT"),
    _refused("retention.ms", "9223372036854775808", "Not a number of type LONG"),
    _refused("min.cleanable.dirty.ratio", "2", "Value must be no more than 1", "2.0"),
    _refused("preallocate", "maybe", "Expected value to be either true or false"),
    _refused("local.retention.ms", "-3", "Value must be at least -2"),
    _refused("compression.type", "none", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
    _refused("message.timestamp.type", "", "String must be one of: CreateTime, LogAppendTime"),
    _refused("cleanup.policy", "delete,never", "String must be one of: compact, delete", "never"),
    _refused(
        "leader.replication.throttled.replicas",
        "0:1,x",
        f"leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
        f"{_REPLICAS}",
        "[0:1, x]",
    ),
    Case(
        TOPIC,
        THE_TOPIC,
        [("remote.storage.enable", SET, "true")],
        ErrorCode.invalid_config,
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
    ),
    Case(
        TOPIC,
        THE_TOPIC,
        [("message.format.version", SET, "3.0")],
        ErrorCode.invalid_config,
        "Unknown topic config name: message.format.version",
    ),
    Case(
        BROKER,
        "",
        [("num.io.threads", SET, "0")],
        ErrorCode.invalid_request,
        "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
    ),
]

KAFKA_TOPIC_CONFIGS = {
    "cleanup.policy": ("delete", 7),
    "compression.gzip.level": ("-1", 3),
    "compression.lz4.level": ("9", 3),
    "compression.type": ("producer", 2),
    "compression.zstd.level": ("3", 3),
    "delete.retention.ms": ("86400000", 5),
    "errors.deadletterqueue.group.enable": ("false", 1),
    "file.delete.delay.ms": ("60000", 5),
    "flush.messages": ("9223372036854775807", 5),
    "flush.ms": ("9223372036854775807", 5),
    "follower.replication.throttled.replicas": ("", 7),
    "index.interval.bytes": ("4096", 3),
    "leader.replication.throttled.replicas": ("", 7),
    "local.retention.bytes": ("-2", 5),
    "local.retention.ms": ("-2", 5),
    "max.compaction.lag.ms": ("9223372036854775807", 5),
    "max.decompressed.message.bytes": ("2147483639", 3),
    "max.message.bytes": ("1048588", 3),
    "message.timestamp.after.max.ms": ("3600000", 5),
    "message.timestamp.before.max.ms": ("9223372036854775807", 5),
    "message.timestamp.type": ("CreateTime", 2),
    "min.cleanable.dirty.ratio": ("0.5", 6),
    "min.compaction.lag.ms": ("0", 5),
    "min.insync.replicas": ("1", 3),
    "preallocate": ("false", 1),
    "remote.copy.lag.bytes": ("-1", 5),
    "remote.copy.lag.ms": ("0", 5),
    "remote.log.copy.disable": ("false", 1),
    "remote.log.delete.on.disable": ("false", 1),
    "remote.storage.enable": ("false", 1),
    "retention.bytes": ("-1", 5),
    "retention.ms": ("604800000", 5),
    "segment.bytes": ("1073741824", 3),
    "segment.index.bytes": ("10485760", 3),
    "segment.jitter.ms": ("0", 5),
    "segment.ms": ("604800000", 5),
    "unclean.leader.election.enable": ("false", 1),
}
"""Every config of a topic with its default and type, as a Kafka 4.4 describes a new topic."""

SET_BY_PROGRAMS = {
    "cleanup.policy": "",
    "compression.gzip.level": "9",
    "compression.lz4.level": "17",
    "compression.zstd.level": "-7",
    "file.delete.delay.ms": "0",
    "follower.replication.throttled.replicas": "0:1,1:1",
    "index.interval.bytes": "0",
    "leader.replication.throttled.replicas": "*",
    "local.retention.bytes": "-1",
    "local.retention.ms": "5",
    "message.timestamp.after.max.ms": "86400000",
    "message.timestamp.before.max.ms": "86400000",
    "min.insync.replicas": "2",
    "preallocate": "true",
    "remote.log.copy.disable": "true",
    "remote.log.delete.on.disable": "true",
    "remote.storage.enable": "false",
    "retention.bytes": "-2",
    "retention.ms": "3600000",
    "segment.index.bytes": "4",
    "segment.jitter.ms": "1000",
    "unclean.leader.election.enable": "true",
}
"""Configs of a topic that are set by operators, Terraform modules, ksqlDB and MirrorMaker, none with its default but
``remote.storage.enable``."""

THROTTLE: list[Change] = [
    ("leader.replication.throttled.rate", SET, "1000"),
    ("follower.replication.throttled.rate", SET, "1000"),
]
"""Configs that ``kafka-reassign-partitions --throttle`` sets on each broker."""


def create(client: Client, name: str, configs: Mapping[str, str | None]) -> Any:
    """Create a topic of one partition; return the result."""
    topic = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": each, "value": value} for each, value in configs.items()],
    }
    return client.exchange(CREATE, 7, {"topics": [topic], "timeout": 10_000, "validate_only": False}).topics[0]


def described(client: Client, kind: int, name: str) -> dict[str, Any]:
    """Return the configs of a DescribeConfigs response, by name."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    body = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    return {config.name: config for config in client.exchange(DESCRIBE, 4, body).results[0].configs}
