"""Sources and synonyms of DescribeConfigs, in Kafka's order (KIP-226)."""

from __future__ import annotations

from muster.actors.config import (
    DYNAMIC,
    ConfigRow,
    ConfigSource,
    MusterConfig,
    describe_broker,
    describe_coordinator_topic,
    describe_default_broker,
    describe_group,
    describe_topic,
    offsets_log_config,
)
from muster.actors.config.kept import KEPT
from muster.placement.view import OFFSETS_TOPIC, DynamicConfigs

STARTED_WITH = MusterConfig.from_properties({"log.retention.minutes": "10", "max.connections": "100"})
CONFIGS = DynamicConfigs(
    cluster={"log.retention.ms": "600000", "max.connections": "50"}, brokers={1: {"max.connections": "5"}}
)


def named(rows: list[ConfigRow], name: str) -> ConfigRow:
    return next(row for row in rows if row.name == name)


def synonyms(row: ConfigRow) -> list[tuple[str, str, int]]:
    return [(each.name, each.value, int(each.source)) for each in row.synonyms]


def test_a_topic() -> None:
    row = named(describe_topic(STARTED_WITH, {"retention.ms": "7"}, CONFIGS), "retention.ms")
    assert (row.value, row.source) == ("7", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert synonyms(row) == [
        ("retention.ms", "7", 1),
        ("log.retention.ms", "600000", 3),
        ("log.retention.minutes", "10", 4),
        ("log.retention.hours", "168", 5),
    ]
    inherited = named(describe_topic(STARTED_WITH, {}, CONFIGS), "retention.ms")
    assert (inherited.value, inherited.source) == ("600000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    static = named(describe_topic(STARTED_WITH, {}), "retention.ms")
    assert (static.value, static.source) == ("600000", ConfigSource.STATIC_BROKER_CONFIG)


def test_what_cannot_be_is_not_described() -> None:
    """Another version stored it, or another program."""
    stored = {"retention.ms": "-5", "segment.bytes": "no number", "flush.ms": "7", "no.such": "1"}
    assert describe_topic(STARTED_WITH, stored, CONFIGS) == describe_topic(STARTED_WITH, {"flush.ms": "7"}, CONFIGS)
    assert offsets_log_config(STARTED_WITH, stored) == offsets_log_config(STARTED_WITH, {"flush.ms": "7"})


def test_topics_that_are_alike_are_described_once() -> None:
    """A client that describes thousands at once delays all others of the gateway."""
    rows = [describe_topic(STARTED_WITH, {"flush.ms": "7"}, CONFIGS) for _ in range(2)]
    assert all(row is again for row, again in zip(*rows, strict=True))
    others = [
        describe_topic(STARTED_WITH, {"flush.ms": "8"}, CONFIGS),
        describe_topic(STARTED_WITH, {}, DynamicConfigs(cluster={"log.flush.interval.ms": "9"})),
        describe_topic(MusterConfig.from_properties({"log.flush.interval.ms": "10"}), {}),
    ]
    assert [named(each, "flush.ms").value for each in (rows[0], *others)] == ["7", "8", "9", "10"]


def test_a_broker() -> None:
    row = named(describe_broker(STARTED_WITH, CONFIGS, 1), "max.connections")
    assert (row.value, row.source) == ("5", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert [each[1:] for each in synonyms(row)] == [("5", 2), ("50", 3), ("100", 4), ("2147483647", 5)]
    other = named(describe_broker(STARTED_WITH, CONFIGS, 2), "max.connections")
    assert (other.value, other.source) == ("50", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


def test_what_is_read_only_is_what_needs_a_restart() -> None:
    rows = describe_broker(STARTED_WITH, CONFIGS, 1)
    assert {row.name for row in rows if not row.read_only} - KEPT.keys() == DYNAMIC


def test_the_default_of_all_brokers_is_what_was_altered() -> None:
    rows = {row.name: (row.value, synonyms(row)) for row in describe_default_broker(STARTED_WITH, CONFIGS)}
    assert rows == {
        "log.retention.ms": ("600000", [("log.retention.ms", "600000", 3)]),
        "max.connections": ("50", [("max.connections", "50", 3)]),
    }


def test_the_offsets_topic() -> None:
    rows = describe_coordinator_topic(
        OFFSETS_TOPIC, STARTED_WITH, {"segment.bytes": "4096", "cleanup.policy": "delete"}, CONFIGS
    )
    assert (named(rows, "segment.bytes").value, named(rows, "cleanup.policy").value) == ("4096", "compact")


def test_a_group() -> None:
    row = named(describe_group({"consumer.session.timeout.ms": "50000"}), "consumer.session.timeout.ms")
    assert (row.value, row.source) == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert synonyms(row) == [
        ("consumer.session.timeout.ms", "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]


def test_a_group_has_what_the_cluster_has() -> None:
    config = MusterConfig.from_properties({"group.consumer.session.timeout.ms": "50000"})
    rows = {row.name: row.value for row in describe_group({}, config)}
    assert rows["consumer.session.timeout.ms"] == "50000"
    assert rows["consumer.heartbeat.interval.ms"] == "5000"
