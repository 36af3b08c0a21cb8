"""AlterConfigs and IncrementalAlterConfigs over real actors: as bytes in every version, and with confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from muster.actors.log.format.batch import read_header
from muster.actors.wire.kafka.codec import ErrorCode, versions_of
from muster.gateway.cli.main import cli
from muster.placement.view import OFFSETS_TOPIC, Topic
from tests.gateway.apis.test_data_apis import fetch, produce, values
from tests.gateway.apis.test_describing_apis import config_resources, describe_configs
from tests.gateway.config_requests import (
    ALTER,
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CASES,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    INCREMENTAL,
    KAFKA_TOPIC_CONFIGS,
    SET,
    SET_BY_PROGRAMS,
    THE_TOPIC,
    THROTTLE,
    TOPIC,
    Case,
    create,
    described,
    incremental,
    replace,
)
from tests.gateway.group_client import Member
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Serving
from tests.log.support import GZIP, LZ4, ZSTD, client_batch

Fresh = Callable[[str], str]
CLUSTER = (BROKER, "")

PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(autouse=True)
def as_before(full: Serving) -> Iterator[None]:
    """Restores the cluster-wide configs."""
    yield
    full.controller.away = False
    for broker in ("", "1"):
        replace(full.client, (BROKER, broker, {}))


def shown(full: Serving, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    """Value and source of every config that is not the default."""
    response = describe_configs(full, kind, name)
    assert response.error_code is ErrorCode.none
    return {
        config.name: (config.value, config.config_source) for config in response.configs if config.config_source < 4
    }


def errors(responses: list[Any]) -> list[ErrorCode]:
    return [response.error_code for response in responses]


@pytest.mark.parametrize("version", versions_of(INCREMENTAL))
def test_every_version_alters_topics(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("topic"), retention_ms="1000", segment_ms="5")
    changes = [("retention.ms", DELETE, None), ("flush.ms", SET, "7"), ("cleanup.policy", APPEND, "compact")]
    [response] = incremental(full.client, (TOPIC, topic.name, changes), version=version)
    assert (response.error_code, response.error_message) == (ErrorCode.none, None)
    assert shown(full, TOPIC, topic.name) == {
        "segment.ms": ("5", 1),
        "flush.ms": ("7", 1),
        "cleanup.policy": ("delete,compact", 1),
    }


@pytest.mark.parametrize("version", versions_of(ALTER))
def test_every_version_replaces(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("topic"), retention_ms="1000", segment_ms="5")
    assert errors(replace(full.client, (TOPIC, topic.name, {"flush.ms": "7"}), version=version)) == [ErrorCode.none]
    assert shown(full, TOPIC, topic.name) == {"flush.ms": ("7", 1)}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_responses_are_those_of_kafka(full: Serving, fresh: Fresh, case: Case) -> None:
    topic = full.create(fresh("topic"))
    name = topic.name if case.name == THE_TOPIC else case.name
    [response] = incremental(full.client, (case.kind, name, case.changes))
    assert response.error_code is case.error
    assert (response.error_message is None) is (case.error is ErrorCode.none)
    assert case.message in (None, response.error_message)
    assert case.error is ErrorCode.none or shown(full, TOPIC, topic.name) == {}


def test_every_config_of_a_topic_is_described(full: Serving, fresh: Fresh) -> None:
    rows = described(full.client, TOPIC, full.create(fresh("topic")).name)
    found = {name: (config.value, config.config_type) for name, config in rows.items()}
    assert found == {**KAFKA_TOPIC_CONFIGS, "flush.messages": ("1", 5)}
    assert all(config.documentation and not config.read_only for config in rows.values())


def test_configs_without_an_effect_are_kept_and_shown(full: Serving, fresh: Fresh) -> None:
    created, altered = fresh("topic"), full.create(fresh("topic")).name
    held = {name: (value, 1) for name, value in SET_BY_PROGRAMS.items()}
    assert create(full.client, created, {**SET_BY_PROGRAMS}).error_code is ErrorCode.none
    changes = [(name, SET, value) for name, value in SET_BY_PROGRAMS.items()]
    assert errors(incremental(full.client, (TOPIC, altered, changes))) == [ErrorCode.none]
    assert shown(full, TOPIC, created) == shown(full, TOPIC, altered) == held


def test_kafkas_dynamic_properties_are_kept_and_shown(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("topic")).name
    changes = [("num.io.threads", SET, "16"), ("min.insync.replicas", SET, "2")]
    assert errors(incremental(full.client, (*CLUSTER, changes), (BROKER, "1", THROTTLE))) == [ErrorCode.none] * 2
    assert shown(full, *CLUSTER) == {"num.io.threads": ("16", 3), "min.insync.replicas": ("2", 3)}
    assert shown(full, BROKER, "1") == {
        **shown(full, *CLUSTER),
        "leader.replication.throttled.rate": ("1000", 2),
        "follower.replication.throttled.rate": ("1000", 2),
    }
    config = described(full.client, TOPIC, topic)["min.insync.replicas"]
    assert [(each.value, each.source) for each in config.synonyms] == [("2", 3), ("1", 5)]
    assert (config.value, config.config_source) == ("2", 3)


def test_what_muster_does_not_have_is_refused(full: Serving) -> None:
    assert errors(incremental(full.client, (BROKER_LOGGER, "1", [("kafka", SET, "INFO")]))) == [
        ErrorCode.invalid_request
    ]


def test_subscriptions_to_client_metrics(full: Serving, fresh: Fresh) -> None:
    name = fresh("subscription / of ours")

    def alter(*changes: tuple[str, int, str | None]) -> tuple[ErrorCode, str | None]:
        [response] = incremental(full.client, (CLIENT_METRICS, name, list(changes)))
        return response.error_code, response.error_message

    def listed() -> list[str]:
        return [each.resource_name for each in full.exchange(74, 0, {}).config_resources]

    assert alter(("interval.ms", SET, "1000"), ("metrics", APPEND, "org.a"), ("metrics", APPEND, "org.b"))[0] == 42
    assert alter(("interval.ms", SET, "1000"), ("metrics", APPEND, "org.a")) == (ErrorCode.none, None)
    assert alter(("metrics", APPEND, "org.b")) == (ErrorCode.none, None)
    found = {
        each.name: (each.value, each.config_source) for each in describe_configs(full, CLIENT_METRICS, name).configs
    }
    assert found == {"interval.ms": ("1000", 7), "match": ("", 5), "metrics": ("org.a,org.b", 7)}
    assert name in listed()
    assert alter(("nope", SET, "1")) == (ErrorCode.invalid_request, "Unknown client metrics configuration: nope")
    assert alter(("match", SET, "colour=red")) == (
        ErrorCode.invalid_config,
        "Illegal client matching pattern: colour=red",
    )
    assert alter(("interval.ms", DELETE, None), ("metrics", DELETE, None)) == (ErrorCode.none, None)
    assert name not in listed()


@pytest.mark.parametrize(
    "name", ["01", "+1", "\u0661", "-1", "9" * 5_000], ids=["zero", "sign", "Arabic", "minus", "long"]
)
def test_a_broker_has_one_name(full: Serving, name: str) -> None:
    """Otherwise a broker config that is set under two names would be found under only one of them."""
    assert errors(incremental(full.client, (BROKER, name, [("max.connections", SET, "500")]))) == [
        ErrorCode.invalid_request
    ]
    assert describe_configs(full, BROKER, name).error_code is ErrorCode.invalid_request
    assert shown(full, BROKER, "1") == {}


def test_an_operation_that_does_not_exist_is_refused(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("topic"))
    assert errors(incremental(full.client, (TOPIC, topic.name, [("flush.ms", 7, "1")]))) == [ErrorCode.invalid_request]


def test_each_resource_is_altered_for_itself(full: Serving, fresh: Fresh) -> None:
    topics = [full.create(fresh("topic")).name for _ in range(3)]
    wrong = (TOPIC, topics[1], [("flush.ms", SET, "x"), ("segment.ms", SET, "7")])
    good = [(TOPIC, name, [("flush.ms", SET, "7")]) for name in (topics[0], topics[2])]
    assert errors(incremental(full.client, good[0], wrong, good[1])) == [
        ErrorCode.none,
        ErrorCode.invalid_config,
        ErrorCode.none,
    ]
    assert [shown(full, TOPIC, name) for name in topics] == [{"flush.ms": ("7", 1)}, {}, {"flush.ms": ("7", 1)}]
    assert errors(incremental(full.client, good[0], good[1], good[0])) == [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]


def test_what_is_only_validated_is_not_done(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("topic"))
    for value, error in (("7", ErrorCode.none), ("x", ErrorCode.invalid_config)):
        resource = (TOPIC, topic.name, [("flush.ms", SET, value)])
        assert errors(incremental(full.client, resource, validate_only=True)) == [error]
        assert errors(replace(full.client, (TOPIC, topic.name, {"flush.ms": value}), validate_only=True)) == [error]
    assert errors(incremental(full.client, (TOPIC, "nobody", []), validate_only=True)) == [
        ErrorCode.unknown_topic_or_partition
    ]
    assert shown(full, TOPIC, topic.name) == {}


def test_it_times_out_while_the_controller_is_away(full: Serving, fresh: Fresh) -> None:
    """An error after which Kafka's admin client retries."""
    topic = full.create(fresh("topic"))
    full.controller.away = True
    for responses in (
        incremental(full.client, (TOPIC, topic.name, [("flush.ms", SET, "7")])),
        replace(full.client, (TOPIC, topic.name, {"flush.ms": "7"})),
    ):
        assert errors(responses) == [ErrorCode.request_timed_out]
    full.controller.away = False
    assert shown(full, TOPIC, topic.name) == {}


def test_a_log_obeys_at_once(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("topic"))

    def written() -> ErrorCode:
        [response] = produce(full.client, (topic, 0, client_batch(10)))
        return ErrorCode(response.error_code)

    limit = "max.message.bytes"
    assert written() is ErrorCode.none
    incremental(full.client, (TOPIC, topic.name, [(limit, SET, "70")]))
    assert written() is ErrorCode.message_too_large
    incremental(full.client, (TOPIC, topic.name, [(limit, DELETE, None)]))
    assert written() is ErrorCode.none
    incremental(full.client, (*CLUSTER, [("message.max.bytes", SET, "0")]))
    assert shown(full, TOPIC, topic.name) == {limit: ("0", 3)}
    assert written() is ErrorCode.message_too_large
    incremental(full.client, (TOPIC, topic.name, [(limit, SET, "1000")]))
    assert written() is ErrorCode.none
    other = full.create(fresh("topic"))
    [response] = produce(full.client, (other, 0, client_batch(10)))
    assert response.error_code is ErrorCode.message_too_large


def test_records_are_stored_in_the_codec_of_the_topic(full: Serving, fresh: Fresh) -> None:
    topic, other = full.create(fresh("topic"), compression_type="zstd"), full.create(fresh("topic"))

    def codec(of: Topic) -> int:
        [written] = produce(full.client, (of, 0, client_batch(3, codec=GZIP)))
        assert written.error_code is ErrorCode.none
        [part] = fetch(full.client, (of, 0, written.base_offset))
        assert len(values(part.records)) == 3
        return read_header(part.records).codec

    assert (codec(topic), codec(other)) == (ZSTD, GZIP)
    incremental(full.client, (*CLUSTER, [("compression.type", SET, "lz4")]))
    assert (codec(topic), codec(other)) == (ZSTD, LZ4)
    incremental(full.client, (TOPIC, topic.name, [("compression.type", DELETE, None)]))
    assert codec(topic) == LZ4


def test_a_coordinator_obeys_at_once(full: Serving, fresh: Fresh) -> None:
    group = fresh("group")
    assert full.run(full.gateway.coordinator_ready(full.gateway.partition_of(group), 20))
    with full.connect() as one, full.connect() as other:
        first, second = Member(one, group), Member(other, group)
        assert first.join(session_timeout_ms=100).error_code is ErrorCode.invalid_session_timeout
        limits = [("group.min.session.timeout.ms", SET, "100"), ("group.max.size", SET, "1")]
        incremental(full.client, (*CLUSTER, limits))
        assert first.join(session_timeout_ms=29_000).error_code is ErrorCode.none
        assert second.join().error_code is ErrorCode.group_max_size_reached
        incremental(full.client, (*CLUSTER, [("group.max.size", SET, "2")]))
        second.request_join()
        assert second.joined().error_code is ErrorCode.member_id_required


def test_the_log_of_the_offsets_topic_obeys(full: Serving, fresh: Fresh) -> None:
    assert full.run(full.gateway.coordinator_ready(0, 20))
    assert full.actors is not None
    log = full.actors.offsets[0]._log
    assert log.config.segment_bytes == 104_857_600
    incremental(full.client, (*CLUSTER, [("offsets.topic.segment.bytes", SET, "5000")]))
    assert (log.config.segment_bytes, describe_segment_bytes(full)) == (5_000, "5000")
    incremental(full.client, (TOPIC, OFFSETS_TOPIC, [("segment.bytes", SET, "6000")]))
    assert (log.config.segment_bytes, describe_segment_bytes(full)) == (6_000, "6000")
    incremental(full.client, (TOPIC, OFFSETS_TOPIC, [("segment.bytes", DELETE, None)]))


def describe_segment_bytes(full: Serving) -> str | None:
    [config] = describe_configs(full, TOPIC, OFFSETS_TOPIC, ["segment.bytes"]).configs
    return str(config.value)


def test_a_gateway_obeys_at_once(full: Serving) -> None:
    """A client beyond the maximum waits until there is room."""
    incremental(full.client, (*CLUSTER, [("max.connections", SET, "50")]))
    incremental(full.client, (BROKER, "1", [("max.connections", SET, "1")]))
    with full.connect() as waits:
        waits.request(60, 1, {"include_cluster_authorized_operations": False, "endpoint_type": 1})
        assert waits.has_nothing_for(0.1)
        assert shown(full, BROKER, "1")["max.connections"] == ("1", 2)
        incremental(full.client, (BROKER, "1", [("max.connections", DELETE, None)]))
        assert waits.response(60, 1).error_code is ErrorCode.none
    assert shown(full, BROKER, "1")["max.connections"] == ("50", 3)
    assert shown(full, *CLUSTER) == {"max.connections": ("50", 3)}


def test_idle_connections_are_closed_by_what_holds_now(full: Serving) -> None:
    with full.connect() as idle:
        incremental(full.client, (*CLUSTER, [("connections.max.idle.ms", SET, "2000")]))
        assert idle.is_closed()
    full.client = full.connect()
    replace(full.client, (*CLUSTER, {}))


def test_groups_that_were_configured_are_listed(full: Serving, fresh: Fresh) -> None:
    group = fresh("a group / of ours")
    incremental(full.client, (GROUP, group, [("consumer.session.timeout.ms", SET, "50000")]))
    assert config_resources(full, GROUP) == (ErrorCode.none, [(GROUP, group)])
    assert shown(full, GROUP, group) == {}
    [config] = describe_configs(full, GROUP, group, ["consumer.session.timeout.ms"]).configs
    assert (config.value, config.config_source) == ("50000", 8)
    replace(full.client, (GROUP, group, {}))
    assert config_resources(full, GROUP) == (ErrorCode.none, [])


def test_a_real_client(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("topic")).name, fresh("group")

    def alter(kind: ResourceType, name: str, **named: Any) -> None:
        entries = [
            ConfigEntry(each.replace("_", "."), value, incremental_operation=operation)
            for each, (operation, value) in named.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(30)

    def entries_of(kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        resource = ConfigResource(kind, name)
        found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(30)
        return found

    with reachable(full) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        set_, append = AlterConfigOpType.SET, AlterConfigOpType.APPEND
        alter(ResourceType.TOPIC, topic, retention_ms=(set_, "5000"), cleanup_policy=(append, "compact"))
        alter(ResourceType.BROKER, "1", max_connections=(set_, "500"))
        alter(ResourceType.GROUP, group, consumer_session_timeout_ms=(set_, "50000"))
        configs = entries_of(ResourceType.TOPIC, topic)
        assert (configs["retention.ms"].value, configs["cleanup.policy"].value) == ("5000", "delete,compact")
        assert entries_of(ResourceType.BROKER, "1")["max.connections"].value == "500"
        assert entries_of(ResourceType.GROUP, group)["consumer.session.timeout.ms"].value == "50000"
        with pytest.raises(
            KafkaException, match=r"Invalid value x for configuration retention\.ms: Not a number of type LONG"
        ):
            alter(ResourceType.TOPIC, topic, retention_ms=(set_, "x"))


def test_muster_topics_alter(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("topic"), segment_ms="7", flush_ms="7").name
    with reachable(full) as bootstrap:

        def alter(*arguments: str) -> Result:
            return CliRunner().invoke(cli, ["topics", "alter", topic, "--bootstrap-server", bootstrap, *arguments])

        done = alter(
            "--config", "retention.ms=5", "--config", "cleanup.policy=compact", "--delete-config", "segment.ms"
        )
        assert (done.exit_code, done.output) == (0, f"altered {topic}\n")
        assert shown(full, TOPIC, topic) == {
            "retention.ms": ("5", 1),
            "cleanup.policy": ("compact", 1),
            "flush.ms": ("7", 1),
        }
        wrong = alter("--config", "retention.ms=x", "--delete-config", "flush.ms")
        assert wrong.exit_code != 0
        assert "Invalid value x for configuration retention.ms" in wrong.output
        assert "nothing to alter" in alter().output
        assert "flush.ms" in shown(full, TOPIC, topic)
