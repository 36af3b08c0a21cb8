"""The APIs without a data actor: responses to real bytes on a real connection, in every version that is served."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.api import APIS
from muster.placement.view import OFFSETS_TOPIC, Broker
from tests.gateway.serving import BROKERS, CLUSTER_ID, Serving
from tests.zookeeper_fixture import eventually

METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 3, 18, 19, 20
INIT_PRODUCER_ID, DESCRIBE_CONFIGS, CREATE_PARTITIONS, DESCRIBE_CLUSTER = 22, 32, 37, 60

ALL_OF_TOPIC, ALL_OF_CLUSTER, OMITTED = 0b1101_1111_1000, 0b1_1111_1010_0000, -(2**31)

BODIES: dict[int, dict[str, Any]] = {
    METADATA: {
        "topics": [{"name": "flights", "topic_id": None}],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    },
    API_VERSIONS: {"client_software_name": "a-client", "client_software_version": "1.0"},
    CREATE_TOPICS: {
        "topics": [
            {"name": "new", "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []},
        ],
        "timeout": 10_000,
        "validate_only": False,
    },
    DELETE_TOPICS: {
        "topic_names": ["flights"],
        "topics": [{"name": "flights", "topic_id": None}],
        "timeout": 10_000,
    },
    INIT_PRODUCER_ID: {
        "transactional_id": None,
        "transaction_timeout": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
        "enable2_pc": False,
        "keep_prepared_txn": False,
    },
    DESCRIBE_CONFIGS: {
        "resources": [{"resource_type": 2, "resource_name": "flights", "configuration_keys": None}],
        "include_synonyms": True,
        "include_documentation": True,
    },
    CREATE_PARTITIONS: {
        "topics": [{"name": "flights", "count": 3, "assignments": None}],
        "timeout": 10_000,
        "validate_only": False,
    },
    DESCRIBE_CLUSTER: {
        "include_cluster_authorized_operations": True,
        "endpoint_type": 1,
        "include_fenced_brokers": False,
    },
}

VERSIONS = [(key, version) for key in BODIES for version in codec.versions_of(key)]


def exchange(served: Serving, key: int, version: int | None = None, **changes: Any) -> Any:
    """Exchange a request, of the newest version by default; ``changes`` replace fields of a valid body."""
    return served.exchange(key, codec.versions_of(key)[-1] if version is None else version, BODIES[key] | changes)


def new_topic(name: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": []} | changes


def created(served: Serving, *topics: dict[str, Any], version: int | None = None, **changes: Any) -> list[Any]:
    return list(exchange(served, CREATE_TOPICS, version, topics=topics, **changes).topics)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_version_is_served(served: Serving, key: int, version: int) -> None:
    served.create("flights", 2)
    response = served.exchange(key, version, BODIES[key])
    match key:
        case _ if key == METADATA:
            (topic,) = response.topics
            assert (topic.name, topic.error_code, len(topic.partitions)) == ("flights", ErrorCode.none, 2)
            assert {partition.leader_id for partition in topic.partitions} <= {1, 2}
            assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
                (broker.id, broker.host, broker.port) for broker in BROKERS
            ]
        case _ if key == API_VERSIONS:
            assert response.error_code == ErrorCode.none
        case _ if key == CREATE_TOPICS:
            assert [(topic.name, topic.error_code) for topic in response.topics] == [("new", ErrorCode.none)]
            assert served.gateway.view.topics["new"].partitions == 2
        case _ if key == DELETE_TOPICS:
            assert [(topic.name, topic.error_code) for topic in response.responses] == [("flights", ErrorCode.none)]
            assert "flights" not in served.gateway.view.topics
        case _ if key == INIT_PRODUCER_ID:
            assert (response.error_code, response.producer_epoch) == (ErrorCode.none, 0)
        case _ if key == DESCRIBE_CONFIGS:
            assert response.results[0].error_code == ErrorCode.none
            assert "retention.ms" in {config.name for config in response.results[0].configs}
        case _ if key == CREATE_PARTITIONS:
            assert [(topic.name, topic.error_code) for topic in response.results] == [("flights", ErrorCode.none)]
            assert served.gateway.view.topics["flights"].partitions == 3
        case _:
            assert (response.error_code, response.cluster_id) == (ErrorCode.none, CLUSTER_ID)


# -- ApiVersions ---------------------------------------------------------------------------------------


def test_api_versions_says_what_is_registered(served: Serving) -> None:
    response = exchange(served, API_VERSIONS)
    said = {each.api_key: range(each.min_version, each.max_version + 1) for each in response.api_keys}
    telemetry = {71, 72}
    assert said == {key: each.versions for key, each in APIS.items() if key not in telemetry}


def test_an_unsupported_api_versions_gets_the_version_0_response(served: Serving) -> None:
    served.client.send(bytes.fromhex("0012 7fff 0000002a 0001 63") + b"whatever a later version says")
    correlation_id, response = codec.decode_response(API_VERSIONS, 0, served.client.receive())
    assert correlation_id == 42
    assert response.error_code == ErrorCode.unsupported_version
    assert [(each.api_key, each.min_version, each.max_version) for each in response.api_keys] == [(18, 0, 4)]
    assert exchange(served, API_VERSIONS).error_code == ErrorCode.none


@pytest.mark.parametrize(
    ("name", "version", "error"),
    [
        ("apache-kafka-java", "3.9.0", ErrorCode.none),
        ("a", "1", ErrorCode.none),
        ("", "1", ErrorCode.invalid_request),
        ("-java", "1", ErrorCode.invalid_request),
        ("java", "1.0.", ErrorCode.invalid_request),
        ("ja va", "1", ErrorCode.invalid_request),
    ],
)
def test_api_versions_checks_the_clients_software(served: Serving, name: str, version: str, error: ErrorCode) -> None:
    response = exchange(served, API_VERSIONS, client_software_name=name, client_software_version=version)
    assert response.error_code == error
    assert bool(response.api_keys) == (error is ErrorCode.none)


def test_api_versions_has_the_features_of_apache_kafka(served: Serving) -> None:
    """Features of Kafka 4.4.0 with its defaults, without those of what Muster has not."""
    response = exchange(served, API_VERSIONS)
    assert [(each.name, each.min_version, each.max_version) for each in response.supported_features] == [
        ("group.version", 0, 1),
        ("transaction.version", 0, 2),
    ]
    assert [(each.name, each.min_version_level, each.max_version_level) for each in response.finalized_features] == [
        ("group.version", 1, 1),
        ("transaction.version", 2, 2),
    ]
    assert response.finalized_features_epoch >= 0


def test_api_versions_hides_levels_of_0_from_clients_that_fail_at_them(served: Serving) -> None:
    """KAFKA-17011: Kafka's v3 response has no feature that begins at 0."""
    response = exchange(served, API_VERSIONS, 3)
    assert response.supported_features == ()
    assert [each.name for each in response.finalized_features] == ["group.version", "transaction.version"]


# -- Metadata ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "topics", "found"), [(0, [], 2), (1, [], 0), (1, None, 2), (13, None, 2)])
def test_metadata_of_all_topics_and_of_none(served: Serving, version: int, topics: Any, found: int) -> None:
    served.create("flights")
    response = exchange(served, METADATA, version, topics=topics)
    assert [topic.name for topic in response.topics] == [OFFSETS_TOPIC, "flights"][:found]
    if version:
        assert [topic.is_internal for topic in response.topics] == [True, False][:found]


@pytest.mark.parametrize(
    ("version", "body"),
    [(13, "00 00 00 00 01 00 00"), (12, "00 00 00 00 01 00 00"), (9, "00 00 00 00 01 00 00 00"), (13, "00 01 00 00")],
)
def test_librdkafka_requests_all_topics(served: Serving, version: int, body: str) -> None:
    """Captured from librdkafka 2.16 (v13): three zeros too many, confluentinc/librdkafka#5049."""
    served.client.send(bytes.fromhex(f"0003 00{version:02x} 00000006 0007") + b"rdkafka\0" + bytes.fromhex(body))
    correlation_id, response = codec.decode_response(METADATA, version, served.client.receive())
    assert (correlation_id, [topic.name for topic in response.topics]) == (6, [OFFSETS_TOPIC])


def test_metadata_by_id(served: Serving) -> None:
    topic, unknown = served.create("flights"), uuid4()
    wanted = [
        {"name": None, "topic_id": topic.topic_id},
        {"name": None, "topic_id": unknown},
        {"name": None, "topic_id": None},
        {"name": None, "topic_id": topic.topic_id},
    ]
    response = exchange(served, METADATA, topics=wanted, allow_auto_topic_creation=True)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [
        ("flights", topic.topic_id, ErrorCode.none),
        (None, unknown, ErrorCode.unknown_topic_id),
        (None, None, ErrorCode.invalid_request),
    ]
    old = exchange(served, METADATA, 11, topics=wanted[:1])
    assert [(topic.name, topic.error_code) for topic in old.topics] == [("", ErrorCode.invalid_request)]


def test_metadata_creates_what_it_may(served: Serving) -> None:
    names = ["flights", "no/name", "__transaction_state", "flights"]
    wanted = [{"name": name, "topic_id": None} for name in names]
    response = exchange(served, METADATA, topics=wanted, allow_auto_topic_creation=True)
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics] == [
        ("flights", ErrorCode.none, 1),
        ("no/name", ErrorCode.invalid_topic_exception, 0),
        ("__transaction_state", ErrorCode.unknown_topic_or_partition, 0),
    ]
    assert response.topics[0].topic_id == served.controller.registry.load()["flights"].topic_id
    assert exchange(served, METADATA, 0, topics=[{"name": "old.client"}]).topics[0].error_code == ErrorCode.none
    collides = exchange(served, METADATA, 4, topics=[{"name": "old_client"}], allow_auto_topic_creation=True)
    assert collides.topics[0].error_code == ErrorCode.invalid_topic_exception


@pytest.mark.parametrize("served", [{"auto.create.topics.enable": "false"}], indirect=True)
def test_metadata_creates_nothing_where_that_is_off(served: Serving) -> None:
    response = exchange(served, METADATA, allow_auto_topic_creation=True)
    assert response.topics[0].error_code == ErrorCode.unknown_topic_or_partition
    assert "flights" not in served.controller.registry.load()


def test_metadata_has_clients_retry_while_the_controller_is_unavailable(served: Serving) -> None:
    served.controller.away = True
    response = exchange(served, METADATA, allow_auto_topic_creation=True)
    assert response.topics[0].error_code == ErrorCode.leader_not_available


def test_metadata_names_leaders_and_the_controller(served: Serving) -> None:
    served.create("flights", 8)
    response = exchange(served, METADATA)
    partitions = response.topics[0].partitions
    assert [partition.partition_index for partition in partitions] == list(range(8))
    assert all(partition.isr_nodes == partition.replica_nodes == (partition.leader_id,) for partition in partitions)
    assert {partition.leader_id for partition in partitions} == {1, 2}
    assert {partition.leader_epoch for partition in partitions} == {-1}
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    served.without_brokers()
    response = exchange(served, METADATA)
    assert (response.controller_id, response.brokers) == (-1, ())
    for partition in response.topics[0].partitions:
        assert (partition.error_code, partition.leader_id) == (ErrorCode.leader_not_available, -1)


@pytest.mark.parametrize(("api", "version"), [(METADATA, 9), (DESCRIBE_CLUSTER, 0)])
def test_a_gateway_that_has_just_started_names_brokers(served: Serving, api: int, version: int) -> None:
    """It serves before it has the view that names it."""
    served.without_brokers()
    served.client.request(api, version, BODIES[api])
    waits = lambda: any(connection.waiting for connection in list(served.gateway.connections.values()))  # noqa: E731
    eventually(waits, "the request waits")
    served.follow(served.controller.view())
    assert served.client.response(api, version).brokers


def test_authorized_operations_are_returned_on_request(served: Serving) -> None:
    served.create("flights")
    without = exchange(served, METADATA, 10)
    assert (without.topics[0].topic_authorized_operations, without.cluster_authorized_operations) == (OMITTED,) * 2
    both = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    requested = exchange(served, METADATA, 10, **both)
    assert requested.topics[0].topic_authorized_operations == ALL_OF_TOPIC
    assert requested.cluster_authorized_operations == ALL_OF_CLUSTER


# -- CreateTopics --------------------------------------------------------------------------------------


def test_created_topics_say_what_they_became(served: Serving) -> None:
    config = [{"name": "retention.ms", "value": "1000"}]
    (topic,) = created(served, new_topic("flights", configs=config))
    assert topic.topic_id == served.gateway.view.topics["flights"].topic_id
    assert (topic.num_partitions, topic.replication_factor, topic.error_message) == (1, 1, None)
    configs = {each.name: (each.value, each.config_source) for each in topic.configs}
    assert configs["retention.ms"] == ("1000", 1)
    assert configs["cleanup.policy"] == ("delete", 5)


@pytest.mark.parametrize(
    ("topic", "error", "says"),
    [
        (new_topic("flights"), ErrorCode.topic_already_exists, "flights"),
        (new_topic("no/name"), ErrorCode.invalid_topic_exception, "no/name"),
        (new_topic(".."), ErrorCode.invalid_topic_exception, "'..'"),
        (new_topic("n" * 250), ErrorCode.invalid_topic_exception, "249"),
        (new_topic("new", num_partitions=0), ErrorCode.invalid_partitions, "non-positive"),
        (new_topic("new", num_partitions=-2), ErrorCode.invalid_partitions, "non-positive"),
        (new_topic("new", num_partitions=10_001), ErrorCode.policy_violation, "Excessively"),
        (new_topic("new", replication_factor=0), ErrorCode.invalid_replication_factor, "larger than 0"),
        (new_topic("new", replication_factor=-2), ErrorCode.invalid_replication_factor, "larger than 0"),
        (new_topic("new", configs=[{"name": "retention.ms", "value": "x"}]), ErrorCode.invalid_config, "retention.ms"),
        (new_topic("new", configs=[{"name": "retention.ms", "value": None}]), ErrorCode.invalid_config, "Null value"),
        (new_topic("new", configs=[{"name": "no.such", "value": "1"}]), ErrorCode.invalid_config, "no.such"),
    ],
)
def test_what_cannot_be_created_is_refused_by_name(served: Serving, topic: Any, error: ErrorCode, says: str) -> None:
    served.create("flights")
    (response,) = created(served, topic)
    assert (response.name, response.error_code) == (topic["name"], error)
    assert says in response.error_message
    assert set(served.controller.registry.load()) == {OFFSETS_TOPIC, "flights"}


@pytest.mark.parametrize("factor", [1, 2, 3, 32_767])
def test_any_replication_factor_is_accepted_and_returned(served: Serving, factor: int) -> None:
    """There are two gateways, and one replica whatever was requested."""
    topic = new_topic("flights", num_partitions=4, replication_factor=factor)
    (tried,) = created(served, topic, validate_only=True)
    (response,) = created(served, topic)
    for each in (tried, response):
        assert (each.error_code, each.num_partitions, each.replication_factor) == (ErrorCode.none, 4, factor)
    assert served.controller.registry.load()["flights"].replication_factor == factor
    partitions = exchange(served, METADATA).topics[0].partitions
    for partition in partitions:
        assert partition.replica_nodes == partition.isr_nodes
        assert partition.replica_nodes[0] == partition.leader_id
        assert sorted(partition.replica_nodes) in ([[1, 2]] if factor > 1 else [[1], [2]])
        assert partition.offline_replicas == ()


@pytest.mark.parametrize("served", [{"max.replication.factor": "1"}], indirect=True)
def test_more_than_one_copy_can_be_refused(served: Serving) -> None:
    manual = [{"partition_index": 0, "broker_ids": [1, 2]}]
    for topic in (new_topic("new", replication_factor=2), new_topic("new", assignments=manual)):
        (response,) = created(served, topic)
        assert response.error_code == ErrorCode.invalid_replication_factor
        assert "max.replication.factor=1" in response.error_message
        assert "storage.path" in response.error_message
    assert [response.error_code for response in created(served, new_topic("new"))] == [ErrorCode.none]


@pytest.mark.parametrize(
    ("assignments", "error"),
    [
        ([(0, [1]), (1, [2])], ErrorCode.none),
        ([(0, [3])], ErrorCode.invalid_replica_assignment),
        ([(0, [])], ErrorCode.invalid_replica_assignment),
        ([(0, [1, 2]), (1, [2, 1])], ErrorCode.none),
        ([(0, [1, 1])], ErrorCode.invalid_replica_assignment),
        ([(0, [1, 2]), (1, [2])], ErrorCode.invalid_replica_assignment),
        ([(0, [1, 3])], ErrorCode.invalid_replica_assignment),
        ([(1, [1])], ErrorCode.invalid_replica_assignment),
        ([(0, [1]), (0, [2])], ErrorCode.invalid_replica_assignment),
    ],
)
def test_a_manual_assignment_gives_the_numbers_of_partitions_and_replicas(
    served: Serving, assignments: Any, error: Any
) -> None:
    manual = [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments]
    (response,) = created(served, new_topic("new", assignments=manual))
    assert response.error_code == error
    assert response.num_partitions == (-1 if error else len(assignments))
    assert response.replication_factor == (-1 if error else len(assignments[0][1]))
    (response,) = created(served, new_topic("newer", num_partitions=2, assignments=manual))
    assert response.error_code == ErrorCode.invalid_request


def test_topics_of_one_request_fail_each_for_itself(served: Serving) -> None:
    responses = created(served, new_topic("a"), new_topic("twice"), new_topic("no/name"), new_topic("twice"))
    assert [(response.name, response.error_code) for response in responses] == [
        ("a", ErrorCode.none),
        ("twice", ErrorCode.invalid_request),
        ("no/name", ErrorCode.invalid_topic_exception),
    ]
    assert set(served.controller.registry.load()) == {OFFSETS_TOPIC, "a"}


def test_validate_only_creates_nothing(served: Serving) -> None:
    (response,) = created(served, new_topic("new", num_partitions=4), validate_only=True)
    assert (response.error_code, response.num_partitions, response.topic_id) == (ErrorCode.none, 4, None)
    assert set(served.controller.registry.load()) == {OFFSETS_TOPIC}


def test_what_does_not_show_in_time_times_out(served: Serving) -> None:
    served.create("flights")
    served.controller.mute = True
    (made,) = created(served, new_topic("late"), timeout=1)
    assert made.error_code == ErrorCode.request_timed_out
    assert "late" in served.controller.registry.load()
    (gone,) = exchange(served, DELETE_TOPICS, timeout=0).responses
    assert gone.error_code == ErrorCode.request_timed_out
    served.controller.away = True
    (made,) = created(served, new_topic("never"))
    assert made.error_code == ErrorCode.request_timed_out
    (grown,) = exchange(served, CREATE_PARTITIONS).results
    assert grown.error_code == ErrorCode.request_timed_out


# -- DeleteTopics --------------------------------------------------------------------------------------


def test_delete_by_name_and_by_id(served: Serving) -> None:
    one, two, three = (served.create(name) for name in ("one", "two", "three"))
    unknown = uuid4()
    wanted: list[tuple[str | None, UUID | None]] = [
        (None, one.topic_id),
        ("two", None),
        ("three", None),
        (None, three.topic_id),
        ("nobody", None),
        (None, unknown),
        ("one", one.topic_id),
        (None, None),
        (OFFSETS_TOPIC, None),
    ]
    response = exchange(
        served, DELETE_TOPICS, topics=[{"name": name, "topic_id": topic_id} for name, topic_id in wanted]
    )
    assert [(each.name, each.topic_id, each.error_code) for each in response.responses] == [
        ("one", one.topic_id, ErrorCode.none),
        ("two", two.topic_id, ErrorCode.none),
        ("three", None, ErrorCode.invalid_request),
        ("three", three.topic_id, ErrorCode.none),
        ("nobody", None, ErrorCode.unknown_topic_or_partition),
        (None, unknown, ErrorCode.unknown_topic_id),
        ("one", one.topic_id, ErrorCode.invalid_request),
        (None, None, ErrorCode.invalid_request),
        (OFFSETS_TOPIC, None, ErrorCode.invalid_request),
    ]
    assert set(served.controller.registry.load()) == {OFFSETS_TOPIC}


def test_a_name_given_twice_is_not_deleted(served: Serving) -> None:
    served.create("flights")
    (response,) = exchange(served, DELETE_TOPICS, 5, topic_names=["flights", "flights"]).responses
    assert (response.error_code, response.error_message) == (ErrorCode.invalid_request, "Duplicate topic name.")
    assert "flights" in served.controller.registry.load()


@pytest.mark.parametrize("served", [{"delete.topic.enable": "false"}], indirect=True)
def test_deletion_can_be_off(served: Serving) -> None:
    served.create("flights")
    assert exchange(served, DELETE_TOPICS).responses[0].error_code == ErrorCode.topic_deletion_disabled
    assert exchange(served, DELETE_TOPICS, 2).responses[0].error_code == ErrorCode.invalid_request
    assert "flights" in served.controller.registry.load()


# -- CreatePartitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "count", "assignments", "error"),
    [
        ("flights", 4, [[1], [2]], ErrorCode.none),
        ("flights", 4, [[1]], ErrorCode.invalid_replica_assignment),
        ("flights", 3, [[7]], ErrorCode.invalid_replica_assignment),
        ("flights", 3, [[1, 2]], ErrorCode.invalid_replica_assignment),
        ("flights", 2, None, ErrorCode.invalid_partitions),
        ("flights", 1, None, ErrorCode.invalid_partitions),
        ("flights", 20_000, None, ErrorCode.policy_violation),
        ("nobody", 2, None, ErrorCode.unknown_topic_or_partition),
        (OFFSETS_TOPIC, 100, None, ErrorCode.invalid_request),
    ],
)
def test_topics_only_grow(served: Serving, name: str, count: int, assignments: Any, error: ErrorCode) -> None:
    served.create("flights", 2)
    manual = None if assignments is None else [{"broker_ids": brokers} for brokers in assignments]
    (response,) = exchange(
        served, CREATE_PARTITIONS, topics=[{"name": name, "count": count, "assignments": manual}]
    ).results
    assert (response.name, response.error_code) == (name, error)
    partitions = {topic.name: topic.partitions for topic in served.controller.registry.load().values()}
    assert partitions == {OFFSETS_TOPIC: 3, "flights": 2 if error else count}


def test_a_new_partition_names_as_many_replicas_as_the_topic_reports(served: Serving) -> None:
    created(served, new_topic("flights", num_partitions=1, replication_factor=3))

    def grow(count: int, brokers: list[int]) -> ErrorCode:
        topic = {"name": "flights", "count": count, "assignments": [{"broker_ids": brokers}]}
        error: ErrorCode = exchange(served, CREATE_PARTITIONS, topics=[topic]).results[0].error_code
        return error

    assert grow(2, [2, 1]) == ErrorCode.none
    assert grow(3, [2]) == ErrorCode.invalid_replica_assignment
    served.controller.brokers = (*BROKERS, Broker(id=3, host="three.test", port=9094, node_id="n3"))
    served.follow(served.controller.view())
    assert grow(3, [2, 1, 3]) == ErrorCode.none
    assert {len(partition.replica_nodes) for partition in exchange(served, METADATA).topics[0].partitions} == {3}


def test_growth_can_be_tried_without_doing_it(served: Serving) -> None:
    served.create("flights", 2)
    assert exchange(served, CREATE_PARTITIONS, validate_only=True).results[0].error_code == ErrorCode.none
    twice = [{"name": "flights", "count": 3, "assignments": None}] * 2
    (response,) = exchange(served, CREATE_PARTITIONS, topics=twice).results
    assert response.error_code == ErrorCode.invalid_request
    assert served.controller.registry.load()["flights"].partitions == 2
