"""The error of a fault, from every API in every version: a valid response, with the error wherever an item has one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from muster.actors.faults.apis import GROUP, MEMBER, NAMED_BY, PARTITION, TOPIC
from muster.actors.faults.matching import Facts
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.faults.injection import facts_of
from muster.gateway.listener.api import APIS, Call
from muster.placement.view import Topic
from pytest_muster import FaultClient
from tests.gateway.acl_requests import ACL, ACL_FILTER
from tests.gateway.apis.test_data_apis import fetch_body, produce_body
from tests.gateway.fault_client import PROPERTIES
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Serving
from tests.log.support import client_batch

__all__ = ["PROPERTIES"]

ERROR = ErrorCode.cluster_authorization_failed
"""No API returns it by itself."""
WHOLE_REQUEST_TOO = {
    1: "Fetch",
    3: "Metadata",
    24: "AddPartitionsToTxn",
    43: "ElectLeaders",
    45: "AlterPartitionReassignments",
}
"""They have an error of the whole request in addition to those of the items, which is NONE here."""
API_VERSIONS = 18
EPOCHS = {"current_leader_epoch": -1, "leader_epoch": 0}
OF_PRODUCER = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
MARKER = {
    "producer_id": 1,
    "producer_epoch": 0,
    "transaction_result": True,
    "coordinator_epoch": 0,
    "transaction_version": 0,
}


def body_of(api_key: int, topic: Topic, group: str) -> dict[str, Any]:
    """Return a request with every field of any of its versions."""
    by_partition = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1, "offset": 0}]
    named = {"name": topic.name, "topic_id": topic.topic_id}
    member = {"group_id": group, "generation_id": 1, "member_id": "m", "group_instance_id": "i"}
    offsets = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": None}]
    fetched = [{**named, "partition_indexes": [0]}]
    every: dict[int, dict[str, Any]] = {
        0: produce_body((topic, 0, client_batch())),
        1: fetch_body((topic, 0, 0), max_wait=0),
        2: {"replica_id": -1, "isolation_level": 0, "topics": [{**named, "partitions": by_partition}], "timeout": 1000},
        3: {
            "topics": [named],
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        },
        8: {
            **member,
            "generation_id_or_member_epoch": 1,
            "retention_time": -1,
            "topics": [{**named, "partitions": offsets}],
        },
        9: {
            "group_id": group,
            "topics": fetched,
            "groups": [{"group_id": group, "member_id": "m", "member_epoch": 1, "topics": fetched}],
            "require_stable": False,
        },
        10: {"key": group, "key_type": 0, "coordinator_keys": [group]},
        11: {
            **member,
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
            "reason": None,
        },
        12: member,
        13: {**member, "members": [{"member_id": "m", "group_instance_id": "i", "reason": None}]},
        14: {**member, "protocol_type": "consumer", "protocol_name": "range", "assignments": []},
        15: {"groups": [group], "include_authorized_operations": False},
        16: {"states_filter": [], "types_filter": []},
        17: {"mechanism": "PLAIN"},
        18: {"client_software_name": "a", "client_software_version": "1"},
        19: {
            "topics": [
                {"name": topic.name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            ],
            "timeout": 1000,
            "validate_only": True,
        },
        20: {"topics": [{"name": topic.name, "topic_id": None}], "topic_names": [topic.name], "timeout": 1000},
        21: {"topics": [{**named, "partitions": by_partition}], "timeout": 1000},
        22: {"transactional_id": None, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
        23: {"replica_id": -1, "topics": [{"topic": topic.name, "partitions": [{**EPOCHS, "partition": 0}]}]},
        24: {
            **{f"v3_and_below_{name}": value for name, value in OF_PRODUCER.items()},
            "v3_and_below_topics": [{"name": topic.name, "partitions": [0]}],
            "transactions": [
                {**OF_PRODUCER, "verify_only": False, "topics": [{"name": topic.name, "partitions": [0]}]}
            ],
        },
        25: {**OF_PRODUCER, "group_id": group},
        26: {**OF_PRODUCER, "committed": True},
        27: {"markers": [{**MARKER, "topics": fetched}]},
        28: {**member, **OF_PRODUCER, "topics": [{**named, "partitions": offsets}]},
        29: ACL_FILTER,
        30: {"creations": [ACL]},
        31: {"filters": [ACL_FILTER]},
        32: {
            "resources": [{"resource_type": 2, "resource_name": topic.name, "configuration_keys": None}],
            "include_synonyms": False,
            "include_documentation": False,
        },
        33: {
            "resources": [{"resource_type": 2, "resource_name": topic.name, "configs": []}],
            "validate_only": True,
        },
        34: {"dirs": [{"path": "/", "topics": [{"name": topic.name, "partitions": [0]}]}]},
        35: {"topics": [{"topic": topic.name, "partitions": [0]}]},
        36: {"auth_bytes": b"a token"},
        37: {
            "topics": [{"name": topic.name, "count": 2, "assignments": None}],
            "timeout": 1000,
            "validate_only": True,
        },
        42: {"groups_names": [group]},
        43: {
            "election_type": 0,
            "topic_partitions": [{"topic": topic.name, "partitions": [0]}],
            "timeout": 1000,
        },
        45: {
            "timeout": 1000,
            "allow_replication_factor_change": True,
            "topics": [{"name": topic.name, "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
        46: {"timeout": 1000, "topics": fetched},
        71: {"client_instance_id": None},
        72: {
            "client_instance_id": topic.topic_id,
            "subscription_id": 1,
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        },
        75: {"topics": [{"name": topic.name}], "response_partition_limit": 10, "cursor": None},
        48: {"components": [], "strict": False},
        49: {
            "entries": [{"entity": [{"entity_type": "client-id", "entity_name": "a"}], "ops": []}],
            "validate_only": True,
        },
        44: {
            "resources": [{"resource_type": 2, "resource_name": topic.name, "configs": []}],
            "validate_only": True,
        },
        47: {"group_id": group, "topics": [{**named, "partitions": by_partition}]},
        50: {"users": None},
        51: {"deletions": [{"name": "u", "mechanism": 1}], "upsertions": []},
        55: {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        57: {
            "timeout": 1000,
            "feature_updates": [
                {"feature": "group.version", "max_version_level": 1, "allow_downgrade": False, "upgrade_type": 1}
            ],
            "validate_only": True,
        },
        64: {"broker_id": 99},
        60: {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": False},
        61: {"topics": fetched},
        65: {"transactional_ids": ["t"]},
        66: {
            "state_filters": [],
            "producer_id_filters": [],
            "duration_filter": -1,
            "transactional_id_pattern": None,
        },
        68: {
            "group_id": group,
            "member_id": "m",
            "member_epoch": 0,
            "instance_id": "i",
            "rack_id": None,
            "rebalance_timeout": 1000,
            "subscribed_topic_names": [topic.name],
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [],
        },
        69: {"group_ids": [group], "include_authorized_operations": False},
        74: {"resource_types": []},
    }
    return every[api_key]


def errors_in(entity: Any, *, of_items: bool = False) -> Iterator[tuple[bool, ErrorCode]]:
    """(is it an item's, error) for every error field of a response."""
    if isinstance(entity, tuple):
        for item in entity:
            yield from errors_in(item, of_items=True)
    elif dataclasses.is_dataclass(entity):
        for declared in dataclasses.fields(entity):
            value = getattr(entity, declared.name)
            if isinstance(value, ErrorCode) and declared.name.endswith("error_code"):
                yield of_items, value
            elif isinstance(value, tuple):
                yield from errors_in(value, of_items=of_items)


EVERY = [
    pytest.param(key, version, id=f"{api.name}-{version}")
    for key, api in sorted(APIS.items())
    for version in api.versions
]


@pytest.fixture(scope="module")
def faults(full: Serving) -> Iterator[FaultClient]:
    """Every request that ``met`` sends gets the error."""
    client = FaultClient(full.http_url)
    client.inject("error", client_id="met", error=ERROR.name)
    yield client
    client.clear()


@pytest.fixture(scope="module")
def topic(full: Serving) -> Topic:
    return full.create("of-all-answers", 2)


@pytest.mark.parametrize(("api_key", "version"), EVERY)
def test_the_error_is_in_every_place(
    full: Serving, faults: FaultClient, topic: Topic, fresh: Fresh, api_key: int, version: int
) -> None:
    with full.connect("met") as client:
        response = client.exchange(api_key, version, body_of(api_key, topic, fresh("g")))
    found = list(errors_in(response))
    of_items = [error for is_item, error in found if is_item]
    assert set(of_items) <= {ERROR}
    whole = {error for is_item, error in found if not is_item}
    if api_key in WHOLE_REQUEST_TOO:
        assert of_items
        assert whole <= {ErrorCode.none}
    else:
        assert of_items or whole == {ERROR}
        assert whole <= {ERROR}


def test_an_error_of_a_fetch_session_is_of_the_whole_request(full: Serving, faults: FaultClient, topic: Topic) -> None:
    faults.inject("error", client_id="in a session", error="FETCH_SESSION_ID_NOT_FOUND")
    with full.connect("in a session") as client:
        response = client.exchange(1, 18, fetch_body((topic, 0, 0), max_wait=0))
    assert (response.error_code, response.responses) == (ErrorCode.fetch_session_id_not_found, ())


def test_the_apis_that_are_served_can_be_named_and_no_others() -> None:
    assert {api.name for api in APIS.values()} == set(NAMED_BY)


@pytest.mark.parametrize(("api_key", "version"), EVERY)
def test_what_a_request_names_is_found(full: Serving, topic: Topic, api_key: int, version: int) -> None:
    """In every version, by name or by id; exactly what the table of APIs promises."""
    frame = codec.encode_request(api_key, version, 1, "a", body_of(api_key, topic, "g"))
    facts = facts_of(Call(full.gateway, None, codec.decode_header(frame), frame))  # type: ignore[arg-type]
    named = NAMED_BY[APIS[api_key].name]
    assert facts == Facts(
        groups=frozenset({"g"} if GROUP in named else ()),
        members=facts.members,
        topics={topic.name: frozenset({0} if PARTITION in named else ())} if TOPIC in named else {},
        offsets_partitions=frozenset({full.gateway.partition_of("g")} if GROUP in named else ()),
    )
    assert facts.members <= {"m", "i"}
    newest = version == APIS[api_key].versions[-1]
    assert not newest or bool(facts.members) == (MEMBER in named)
