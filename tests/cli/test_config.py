"""Properties: Kafka's names, refused by name when wrong, and which source goes before which."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from actors.config import (
    ConfigError,
    ConfigSource,
    ConfigType,
    MusterConfig,
    describe_broker,
    describe_topic,
    group_config,
    log_config,
    topic_config_errors,
)
from gateway.cli.options import read_config


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"num.partitons": "1"}, "unknown property num.partitons (did you mean num.partitions?)"),
        ({"num.partitions": "0"}, "num.partitions=0 must be at least 1"),
        ({"num.partitions": "1_0"}, "num.partitions=1_0 is not a whole number"),
        ({"num.partitions": "2147483648"}, "num.partitions=2147483648 must be at most 2147483647"),
        ({"auto.create.topics.enable": "yes"}, "auto.create.topics.enable=yes is neither true nor false"),
        ({"log.cleanup.policy": "keep"}, "log.cleanup.policy=keep is none of delete, compact, and both with a comma"),
        ({"fault.injection.enable": "true"}, "fault.injection.enable=true fault injection comes with a later version"),
        ({"listeners": "SSL://:9093"}, "listeners=SSL://:9093 SSL comes with a later version"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "sasl.enabled.mechanisms comes with a later version"),
        ({"log.flush.interval.ms": "1"}, "log.flush.interval.ms has no effect in Muster"),
        ({"replica.lag.time.max.ms": "1"}, "replica.lag.time.max.ms has no effect in Muster"),
        (
            {"group.min.session.timeout.ms": "2000000"},
            "group.min.session.timeout.ms must not be greater than group.max.session.timeout.ms (2000000 > 1800000)",
        ),
    ],
)
def test_a_wrong_property_is_refused_by_name(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        MusterConfig.from_properties(properties)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_every_wrong_property_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"nonsense.*num\.partitions=x"):
        MusterConfig.from_properties({"num.partitions": "x", "nonsense": "1"})


def test_bounds_are_legal() -> None:
    config = MusterConfig.from_properties({"group.max.size": "1", "log.retention.ms": "-1", "metrics.port": "65535"})
    assert (config.group_max_size, config.retention_ms, config.metrics_port) == (1, -1, 65535)


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.minutes": "-1"}, -1),
    ],
)
def test_retention_has_kafkas_precedence(properties: dict[str, str], retention_ms: int) -> None:
    assert MusterConfig.from_properties(properties).retention_ms == retention_ms


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (None, ("10.0.0.7", 9094)),
        ("kafka.example", ("kafka.example", 9094)),
        ("kafka.example:1000", ("kafka.example", 1002)),
        ("gw-{id}.example:1000", ("gw-2.example", 1000)),
        ("{host}:1000", ("10.0.0.7", 1000)),
        ("[::1]:1000", ("::1", 1002)),
    ],
)
def test_what_clients_are_told(template: str | None, told: tuple[str, int]) -> None:
    config = MusterConfig.from_properties({"advertised.listeners": template} if template else {})
    assert config.advertised(2, "10.0.0.7", 9094) == told


def test_flags_go_before_set_and_set_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "muster.properties"
    file.write_text("num.partitions = 2\ngroup.max.size: 3\nlisteners=PLAINTEXT://10.0.0.7:9000\nlog.actors=4\n")
    config = read_config(file, ("num.partitions=5", "log.actors=6"), {"log.actors": "7", "port": "0", "x": None})
    assert (config.num_partitions, config.group_max_size, config.log_actors) == (5, 3, 7)
    assert config.listener == ("10.0.0.7", 0)


def test_parts_get_what_they_know() -> None:
    config = MusterConfig.from_properties({"group.max.size": "7", "message.max.bytes": "100"})
    assert group_config(config).group_max_size == 7
    assert log_config(config).max_message_bytes == 100
    assert log_config(config, {"max.message.bytes": "50"}).max_message_bytes == 50


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"retention.ms": "86400000", "cleanup.policy": "compact,delete"}, None),
        ({"retention.ms": "-2"}, "retention.ms=-2 must be at least -1"),
        ({"retention.msec": "1"}, "Unknown topic config name: retention.msec (did you mean retention.ms?)"),
        ({"segment.ms": "1"}, "segment.ms has no effect in Muster; leave it out"),
        ({"compression.type": "zstd"}, "compression.type=zstd can only be producer"),
        ({"retention.ms": None}, "retention.ms has no value"),
    ],
)
def test_configs_of_a_topic(config: dict[str, str | None], error: str | None) -> None:
    found = topic_config_errors(config)
    assert found is None if error is None else found is not None and found.startswith(error)


def test_describe_names_sources_and_synonyms() -> None:
    config = pickle.loads(pickle.dumps(MusterConfig.from_properties({"log.retention.minutes": "5"})))
    by_name = {row.name: row for row in describe_topic(config, {"segment.bytes": "1000"})}
    retention, segment = by_name["retention.ms"], by_name["segment.bytes"]
    assert (retention.value, retention.source) == ("300000", ConfigSource.STATIC_BROKER_CONFIG)
    assert [name for name, _, _ in retention.synonyms] == ["log.retention.minutes", "log.retention.hours"]
    assert (segment.value, segment.source, segment.type) == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigType.INT)
    assert segment.synonyms[1] == ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG)


def test_describe_shows_every_property_of_a_broker() -> None:
    rows = {row.name: row for row in describe_broker(MusterConfig.from_properties({"num.partitions": "6"}))}
    assert len(rows) == len(MusterConfig.model_fields)
    assert rows["num.partitions"].source is ConfigSource.STATIC_BROKER_CONFIG
    assert rows["auto.create.topics.enable"].value == "true"
    assert all(row.documentation and row.read_only for row in rows.values())
