"""Requests of tools to the cluster itself; Kafka responds alike with one broker."""

from __future__ import annotations

from typing import Any

import pytest

from muster.actors.wire.kafka.codec import ErrorCode, versions_of
from tests.gateway.serving import Client

METADATA, DESCRIBE_QUORUM, DESCRIBE_CLUSTER, UPDATE_FEATURES, UNREGISTER_BROKER = 3, 55, 60, 57, 64
UPGRADE, SAFE_DOWNGRADE = 1, 2
Feature = tuple[str, int, int]
"""Name, level, type of the upgrade."""
_FAILED = "The update failed for all features since the following feature had an error: Invalid update version"
_LOWER = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)


def quorum(client: Client, topic: str, partition: int, version: int = 2) -> Any:
    body = {"topics": [{"topic_name": topic, "partitions": [{"partition_index": partition}]}]}
    return client.exchange(DESCRIBE_QUORUM, version, body)


def update(client: Client, *features: Feature, version: int = 2, validate_only: bool = False) -> tuple[str, str | None]:
    """Update features; return the error of the request and its message."""
    updates = [
        {"feature": name, "max_version_level": level, "allow_downgrade": False, "upgrade_type": kind}
        for name, level, kind in features
    ]
    body = {"timeout": 5_000, "feature_updates": updates, "validate_only": validate_only}
    response = client.exchange(UPDATE_FEATURES, version, body)
    return ErrorCode(response.error_code).name, response.error_message


def unregister(client: Client, broker_id: int) -> tuple[str, str | None]:
    response = client.exchange(UNREGISTER_BROKER, 0, {"broker_id": broker_id})
    return ErrorCode(response.error_code).name, response.error_message


class ClusterApis:
    """The tests, for subclasses in modules with the fixture ``client``."""

    @pytest.mark.parametrize("version", versions_of(DESCRIBE_QUORUM))
    def test_the_controller_is_a_quorum_of_one(self, client: Client, version: int) -> None:
        cluster = {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": False}
        controller = client.exchange(DESCRIBE_CLUSTER, 1, cluster).controller_id
        response = quorum(client, "__cluster_metadata", 0, version)
        (found,) = response.topics[0].partitions
        (voter,) = found.current_voters
        assert (response.error_code, found.error_code, found.observers) == (ErrorCode.none, ErrorCode.none, ())
        assert found.leader_id == voter.replica_id == controller
        assert found.leader_epoch > 0
        assert found.high_watermark == voter.log_end_offset > 0
        if version >= 2:
            (node,) = response.nodes
            assert (node.node_id, [listener.name for listener in node.listeners]) == (controller, ["CONTROLLER"])

    @pytest.mark.parametrize(("topic", "partition"), [("other", 0), ("__cluster_metadata", 3)])
    def test_there_is_no_other_quorum(self, client: Client, topic: str, partition: int) -> None:
        response = quorum(client, topic, partition)
        (found,) = response.topics[0].partitions
        text = "This server does not host this topic-partition."
        assert (found.error_code, found.error_message) == (ErrorCode.unknown_topic_or_partition, text)
        assert (response.error_code, response.nodes) == (ErrorCode.none, ())

    @pytest.mark.parametrize("version", versions_of(UPDATE_FEATURES))
    def test_the_level_that_there_is_can_be_set(self, client: Client, version: int) -> None:
        features = (("transaction.version", 2, UPGRADE), ("group.version", 1, SAFE_DOWNGRADE if version else UPGRADE))
        assert update(client, *features, version=version) == ("none", None)
        assert update(client, version=version) == ("none", None)

    @pytest.mark.parametrize(
        ("feature", "says"),
        [
            (("group.version", -1, UPGRADE), "-1 for feature group.version. A feature version cannot be less than 0."),
            (("group.version", 1, 9), "1 for feature group.version. The controller does not support the given upgrade"),
            (("nope", 2, UPGRADE), "2 for feature nope. Local controller 1 does not support this feature."),
            (
                ("group.version", 7, UPGRADE),
                "7 for feature group.version. Local controller 1 only supports versions 0-1",
            ),
            (("transaction.version", 1, UPGRADE), f"1 for feature transaction.version. {_LOWER}"),
        ],
    )
    def test_what_no_feature_can_have_is_refused(self, client: Client, feature: Feature, says: str) -> None:
        for validate_only in (False, True):
            error, message = update(client, ("group.version", 1, UPGRADE), feature, validate_only=validate_only)
            assert error == "invalid_update_version"
            assert (message or "").startswith(f"{_FAILED} {says}")

    def test_a_broker_that_is_not_there_is_not_registered(self, client: Client) -> None:
        for broker in (99, -1):
            says = f"Broker ID {broker} is not currently registered"
            assert unregister(client, broker) == ("broker_id_not_registered", says)
