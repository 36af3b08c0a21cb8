"""Properties: Kafka's names, refusals by name, and the order of precedence of sources."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from muster.actors.config import (
    ConfigError,
    ConfigSource,
    ConfigType,
    MusterConfig,
    describe_broker,
    describe_topic,
    group_config,
    log_config,
    offsets_log_config,
    topic_config_errors,
)
from muster.actors.config.properties import property_names
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.properties import read_config


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"num.partitons": "1"}, "unknown property num.partitons (did you mean num.partitions?)"),
        ({"num.partitions": "0"}, "num.partitions=0 must be at least 1"),
        ({"num.partitions": "1_0"}, "num.partitions=1_0 is not a whole number"),
        ({"num.partitions": "2147483648"}, "num.partitions=2147483648 must be at most 2147483647"),
        ({"auto.create.topics.enable": "yes"}, "auto.create.topics.enable=yes is neither true nor false"),
        ({"log.cleanup.policy": "keep"}, "log.cleanup.policy=keep is none of delete, compact, both with a comma"),
        (
            {"listeners": "SSL://:9093"},
            "listener SSL: TLS needs a key: set ssl.keystore.location, or ssl.keystore.key and",
        ),
        ({"sasl.kerberos.kinit.cmd": "x"}, "sasl.kerberos.kinit.cmd has no effect in Muster (Kerberos (GSSAPI) is not"),
        (
            {"sasl.mechanism.inter.broker.protocol": "PLAIN"},
            "sasl.mechanism.inter.broker.protocol has no effect in Muster",
        ),
        ({"sasl.login.class": "x"}, "sasl.login.class comes with a later version"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms=GSSAPI is not empty and none of PLAIN"),
        ({"listeners": "SASL_PLAINTEXT://:9093"}, "listeners=SASL_PLAINTEXT://:9093 needs sasl.enabled.mechanisms"),
        ({"log.flush.scheduler.interval.ms": "1"}, "log.flush.scheduler.interval.ms has no effect in Muster"),
        ({"replica.lag.time.max.ms": "1"}, "replica.lag.time.max.ms has no effect in Muster"),
        ({"actor.port.range": "21000"}, "actor.port.range=21000 is not FIRST-LAST, two ports"),
        ({"actor.port.range": "2-1"}, "actor.port.range=2-1 is not FIRST-LAST, two ports"),
        ({"actor.port.range": "1-65536"}, "actor.port.range=1-65536 is not FIRST-LAST, two ports"),
        (
            {"group.min.session.timeout.ms": "2000000"},
            "group.min.session.timeout.ms must not be greater than group.max.session.timeout.ms (2000000 > 1800000)",
        ),
        (
            {"default.replication.factor": "3", "max.replication.factor": "1"},
            "default.replication.factor must not be greater than max.replication.factor (3 > 1)",
        ),
    ],
)
def test_a_wrong_property_is_refused_by_name(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        MusterConfig.from_properties(properties)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("properties", "port"),
    [
        ({}, 9404),
        ({"listeners": "PLAINTEXT://:0"}, 0),
        ({"metrics.port": "0"}, 0),
        ({"metrics.port": "9999", "listeners": "PLAINTEXT://:0"}, 9999),
    ],
)
def test_where_metrics_begin(properties: dict[str, str], port: int) -> None:
    assert MusterConfig.from_properties(properties).first_metrics_port == port


def test_ports_of_actors() -> None:
    assert list(MusterConfig.from_properties({}).actor_ports) == [0]
    assert list(MusterConfig.from_properties({"actor.port.range": "21000-21002"}).actor_ports) == [21000, 21001, 21002]


def test_every_wrong_property_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"nonsense.*num\.partitions=x"):
        MusterConfig.from_properties({"num.partitions": "x", "nonsense": "1"})


def test_bounds_are_legal() -> None:
    config = MusterConfig.from_properties({"group.max.size": "1", "log.retention.ms": "-1", "metrics.port": "65535"})
    assert (config.group_max_size, config.retention_ms, config.metrics_port) == (1, -1, 65535)


GROUP_PROPERTIES = {
    "group.min.session.timeout.ms": ("6000", None),
    "group.max.session.timeout.ms": ("1800000", None),
    "group.initial.rebalance.delay.ms": ("3000", None),
    "group.max.size": ("2147483647", 1),
    "group.coordinator.append.linger.ms": ("-1", -1),
    "offset.metadata.max.bytes": ("4096", None),
    "offsets.load.buffer.size": ("5242880", 1),
    "offsets.topic.num.partitions": ("50", 1),
    "offsets.topic.replication.factor": ("3", 1),
    "offsets.topic.segment.bytes": ("104857600", 14),
    "offsets.topic.compression.codec": ("0", 0),
    "offsets.retention.minutes": ("10080", 1),
    "offsets.retention.check.interval.ms": ("600000", 1),
    "offsets.commit.timeout.ms": ("5000", 1),
}
"""Kafka's defaults and lower bounds, as GroupCoordinatorConfig of Kafka 4 defines them.

But for offsets.topic.segment.bytes: below the least segment.bytes of a topic Kafka takes it and cannot make the topic.
"""


@pytest.mark.parametrize("name", GROUP_PROPERTIES)
def test_properties_of_groups_have_kafkas_default_and_lower_bound(name: str) -> None:
    default, least = GROUP_PROPERTIES[name]
    rows = {row.name: row for row in describe_broker(MusterConfig.from_properties({}))}
    assert (rows[name].value, rows[name].source) == (default, ConfigSource.DEFAULT_CONFIG)
    if least is None:
        MusterConfig.from_properties({"group.min.session.timeout.ms": "-5", name: "-5"})
        return
    MusterConfig.from_properties({name: str(least)})
    with pytest.raises(ConfigError, match=rf"{name}={least - 1} must be at least {least}"):
        MusterConfig.from_properties({name: str(least - 1)})


def test_what_belongs_to_other_groups_or_to_threads_is_refused() -> None:
    for name in ("group.share.max.size", "group.streams.max.size"):
        with pytest.raises(ConfigError, match=f"{name} comes with a later version"):
            MusterConfig.from_properties({name: "1"})
    for name in ("group.coordinator.threads", "group.coordinator.background.threads", "group.coordinator.new.enable"):
        with pytest.raises(ConfigError, match=rf"{name} has no effect in Muster \(each offsets partition is an actor"):
            MusterConfig.from_properties({name: "1"})
    with pytest.raises(
        ConfigError, match=r"group\.coordinator\.rebalance\.protocols=classic,streams is none of classic, consumer"
    ):
        MusterConfig.from_properties({"group.coordinator.rebalance.protocols": "classic,streams"})


def test_what_coordinators_write_and_how_they_load() -> None:
    config = MusterConfig.from_properties(
        {"offsets.topic.compression.codec": "4", "offsets.load.buffer.size": "77", "offsets.topic.segment.bytes": "99"}
    )
    log = offsets_log_config(config)
    assert (log.own_codec, log.load_buffer_bytes, log.segment_bytes) == (4, 77, 99)
    with pytest.raises(ConfigError, match=r"offsets\.topic\.compression\.codec=5 must be at most 4"):
        MusterConfig.from_properties({"offsets.topic.compression.codec": "5"})


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


def test_flags_go_before_set_and_set_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "muster.properties"
    file.write_text("num.partitions = 2\ngroup.max.size: 3\nlisteners=PLAINTEXT://10.0.0.7:9000\nlog.actors=4\n")
    config = read_config(file, ("num.partitions=5", "log.actors=6"), {"log.actors": "7", "port": "0", "x": None})
    assert (config.num_partitions, config.group_max_size, config.log_actors) == (5, 3, 7)
    (listener,) = config.all_listeners
    assert (listener.host, listener.port) == ("10.0.0.7", 0)


def test_the_port_of_several_listeners() -> None:
    two = ("listeners=A://:1,B://x:2", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT")
    free = read_config(None, two, {"port": "0"}).all_listeners
    assert [(listener.name, listener.host, listener.port) for listener in free] == [("A", "", 0), ("B", "x", 0)]
    with pytest.raises(CliError, match=r"--port 9092 is for one listener, listeners=A://:1,B://x:2 are 2; write ports"):
        read_config(None, two, {"port": "9092"})


def test_the_port_of_a_listener_that_requires_a_login() -> None:
    sasl = ("sasl.enabled.mechanisms=PLAIN", "sasl.credentials.file=users")
    (listener,) = read_config(None, sasl, {"port": "0"}).all_listeners
    assert (listener.name, listener.port) == ("SASL_PLAINTEXT", 0)


def test_parts_get_what_they_know() -> None:
    config = MusterConfig.from_properties({"group.max.size": "7", "message.max.bytes": "100"})
    assert group_config(config).group_max_size == 7
    assert log_config(config).max_message_bytes == 100
    assert log_config(config, {"max.message.bytes": "50"}).max_message_bytes == 50


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"retention.ms": "86400000", "cleanup.policy": "compact,delete"}, None),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ({"retention.msec": "1"}, "Unknown topic config name: retention.msec (did you mean retention.ms?)"),
        ({"compression.type": "zstd"}, None),
        (
            {"compression.type": "none"},
            "Invalid value none for configuration compression.type: String must be one of: uncompressed, zstd, lz4",
        ),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
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
    assert rows.keys() >= property_names()
    assert rows["num.partitions"].source is ConfigSource.STATIC_BROKER_CONFIG
    assert rows["auto.create.topics.enable"].value == "true"
    assert all(row.documentation for row in rows.values())
