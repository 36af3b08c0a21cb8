"""Requests that alter configs, and Kafka 4's responses; tests/conformance/test_configs.py compares with Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from muster.actors.wire.codec import ErrorCode
from tests.gateway.serving import Client

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
ALTER, INCREMENTAL = 33, 44

Change = tuple[str, int, str | None]


def incremental(
    client: Client, *resources: tuple[int, str, Sequence[Change]], version: int = 1, **named: Any
) -> list[Any]:
    """The result for each resource."""
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
    """The same with AlterConfigs."""
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


THE_TOPIC = "the topic"
_RETENTION: Change = ("retention.ms", SET, "1")
CASES = [
    Case(TOPIC, THE_TOPIC, [("no.such", DELETE, None)], ErrorCode.none),
    Case(TOPIC, THE_TOPIC, [("flush.ms", DELETE, "whatever")], ErrorCode.none),
    Case(TOPIC, THE_TOPIC, [], ErrorCode.none),
    Case(TOPIC, THE_TOPIC, [("cleanup.policy", SUBTRACT, "what it is not")], ErrorCode.none),
    Case(TOPIC, THE_TOPIC, [("cleanup.policy", APPEND, "what cannot be")], ErrorCode.invalid_config),
    Case(TOPIC, THE_TOPIC, [("no.such", SET, "1")], ErrorCode.invalid_config),
    Case(TOPIC, THE_TOPIC, [("retention.ms", SET, "abc")], ErrorCode.invalid_config),
    Case(TOPIC, THE_TOPIC, [("retention.ms", SET, "-5")], ErrorCode.invalid_config),
    Case(TOPIC, THE_TOPIC, [("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
    Case(
        TOPIC,
        THE_TOPIC,
        [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "9")],
        ErrorCode.invalid_config,
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
