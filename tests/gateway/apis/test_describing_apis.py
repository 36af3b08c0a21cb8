"""InitProducerId, DescribeConfigs and DescribeCluster on a real connection."""

from __future__ import annotations

from typing import Any

import pytest

from muster.actors.config import offsets_log_config
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import OFFSETS_TOPIC
from tests.gateway.serving import BROKERS, CLUSTER_ID, Serving

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def init_producer_id(served: Serving, **changes: Any) -> Any:
    body = {
        "transactional_id": None,
        "transaction_timeout": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
        "enable2_pc": False,
        "keep_prepared_txn": False,
    }
    return served.exchange(22, 6, body | changes)


def describe_configs(served: Serving, kind: int, name: str, keys: Any = None, **changes: Any) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    body = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    return served.exchange(32, 4, body | changes).results[0]


def describe_cluster(served: Serving, **changes: Any) -> Any:
    body = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": True}
    return served.exchange(60, 2, body | changes)


def test_no_two_producers_get_the_same_id(served: Serving) -> None:
    responses = [init_producer_id(served) for _ in range(3)]
    responses.append(init_producer_id(served, producer_id=responses[0].producer_id, producer_epoch=4))
    assert {(response.error_code, response.producer_epoch) for response in responses} == {(ErrorCode.none, 0)}
    assert len({response.producer_id for response in responses}) == 4


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"transactional_id": "orders"}, ErrorCode.coordinator_load_in_progress),  # it cannot be started here
        ({"transactional_id": ""}, ErrorCode.invalid_request),
        ({"producer_id": 7}, ErrorCode.invalid_request),
        ({"producer_epoch": 7}, ErrorCode.invalid_request),
    ],
)
def test_who_gets_no_producer_id(served: Serving, changes: dict[str, Any], error: ErrorCode) -> None:
    response = init_producer_id(served, **changes)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (error, -1, -1)


def test_producers_retry_while_the_controller_is_unavailable(served: Serving) -> None:
    """When the gateway's own ids are used up; a block from the controller has 1,000."""
    init_producer_id(served)
    served.controller.away = True
    for _ in range(1_000):
        response = init_producer_id(served)
        if response.error_code is not ErrorCode.none:
            break
    assert (response.error_code, response.producer_id) == (ErrorCode.coordinator_load_in_progress, -1)


def test_configs_of_a_topic(served: Serving) -> None:
    served.create("flights", retention_ms="1000")
    response = describe_configs(served, TOPIC, "flights", ["retention.ms", "segment.bytes", "no.such"])
    assert {config.name: (config.value, config.config_source) for config in response.configs} == {
        "retention.ms": ("1000", 1),
        "segment.bytes": ("1073741824", 5),
    }
    assert all(config.documentation is None and config.synonyms == () for config in response.configs)
    whole = describe_configs(served, TOPIC, "flights", include_synonyms=True, include_documentation=True)
    retention = next(config for config in whole.configs if config.name == "retention.ms")
    assert [(synonym.name, synonym.source) for synonym in retention.synonyms][:1] == [("retention.ms", 1)]
    assert retention.synonyms[-1].name.startswith("log.retention.")
    assert (bool(retention.documentation), retention.config_type, retention.read_only) == (True, 5, False)
    assert describe_configs(served, TOPIC, OFFSETS_TOPIC, ["cleanup.policy"]).configs[0].value == "compact"


@pytest.mark.parametrize("served", [{"num.partitions": "6"}], indirect=True)
def test_configs_of_a_broker(served: Serving) -> None:
    for broker in BROKERS:
        (config,) = describe_configs(served, BROKER, str(broker.id), ["num.partitions"]).configs
        assert (config.value, config.config_source, config.read_only) == ("6", 4, False)
    everything = describe_configs(served, BROKER, "1", [])
    assert {"num.partitions", "offsets.topic.num.partitions"} <= {config.name for config in everything.configs}
    dynamic = describe_configs(served, BROKER, "")
    assert (dynamic.error_code, dynamic.configs) == (ErrorCode.none, ())


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nobody", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "no/name", ErrorCode.invalid_topic_exception),
        (BROKER, "9", ErrorCode.invalid_request),
        (BROKER, "one", ErrorCode.invalid_request),
        (BROKER_LOGGER, "1", ErrorCode.invalid_request),
        (GROUP, "", ErrorCode.invalid_request),
        (CLIENT_METRICS, "", ErrorCode.invalid_request),
        (0, "", ErrorCode.invalid_request),
    ],
)
def test_what_has_no_configs_is_refused(served: Serving, kind: int, name: str, error: ErrorCode) -> None:
    response = describe_configs(served, kind, name)
    assert (response.error_code, response.resource_type, response.resource_name) == (error, kind, name)
    assert response.configs == ()


@pytest.mark.parametrize(
    "served",
    [
        {
            "offsets.topic.segment.bytes": "5000",
            "log.cleanup.policy": "delete",
            "log.message.timestamp.type": "LogAppendTime",
        }
    ],
    indirect=True,
)
def test_configs_of_the_offsets_topic_are_those_that_its_log_obeys(served: Serving) -> None:
    shown = {config.name: config for config in describe_configs(served, TOPIC, OFFSETS_TOPIC).configs}
    obeyed = offsets_log_config(served.gateway.config)
    for name, config in shown.items():
        held = getattr(obeyed, name.replace(".", "_"), None)
        assert held is None or config.value == str(held), name
    assert shown["segment.bytes"].value == "5000"
    assert {name for name, config in shown.items() if config.read_only} == {
        "cleanup.policy",
        "compression.type",
        "flush.messages",
        "message.timestamp.type",
    }


def test_configs_of_a_group(served: Serving) -> None:
    response = describe_configs(served, GROUP, "any group", include_synonyms=True)
    configs = {config.name: (config.value, config.config_source, config.config_type) for config in response.configs}
    assert configs == {
        "consumer.assignment.interval.ms": ("1000", 5, 3),
        "consumer.heartbeat.interval.ms": ("5000", 5, 3),
        "consumer.session.timeout.ms": ("45000", 5, 3),
        "group.byte.rate": (None, 5, 5),
    }
    assert [synonym.name for synonym in response.configs[2].synonyms] == ["group.consumer.session.timeout.ms"]


def test_configs_of_client_metrics(served: Serving) -> None:
    response = describe_configs(served, CLIENT_METRICS, "any subscription")
    configs = {config.name: (config.value, config.config_source) for config in response.configs}
    assert configs == {"interval.ms": ("300000", 5), "match": ("", 5), "metrics": ("", 5)}


def config_resources(served: Serving, *kinds: int, version: int = 1) -> Any:
    response = served.exchange(74, version, {"resource_types": kinds} if version else {})
    found = [(getattr(each, "resource_type", CLIENT_METRICS), each.resource_name) for each in response.config_resources]
    return response.error_code, found


def test_what_has_configs(served: Serving) -> None:
    served.create("flights")
    topics = [(TOPIC, OFFSETS_TOPIC), (TOPIC, "flights")]
    assert config_resources(served) == (ErrorCode.none, [*topics, (BROKER, "1"), (BROKER, "2")])
    assert config_resources(served, TOPIC, GROUP) == (ErrorCode.none, topics)
    assert config_resources(served, BROKER_LOGGER, CLIENT_METRICS) == (ErrorCode.none, [])
    assert config_resources(served, TOPIC, 99) == (ErrorCode.unsupported_version, [])
    assert config_resources(served, version=0) == (ErrorCode.none, [])


def test_the_cluster(served: Serving) -> None:
    response = describe_cluster(served)
    assert (response.cluster_id, response.controller_id, response.endpoint_type) == (CLUSTER_ID, 1, 1)
    assert [(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in response.brokers] == [
        (broker.id, broker.host, broker.port, None, False) for broker in BROKERS
    ]
    assert response.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.mismatched_endpoint_type), (0, ErrorCode.unsupported_endpoint_type)],
)
def test_there_are_no_controller_endpoints(served: Serving, endpoint_type: int, error: ErrorCode) -> None:
    response = describe_cluster(served, endpoint_type=endpoint_type)
    assert (response.error_code, response.brokers) == (error, ())
