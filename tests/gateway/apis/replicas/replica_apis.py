"""Requests of clients about replicas, leaders and log directories; Kafka responds alike with one broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster.placement.view import Topic
from tests.gateway.apis.test_data_apis import produce
from tests.gateway.serving import Client
from tests.log.support import client_batch

ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS, ELECT_LEADERS = 34, 35, 43
ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS, DESCRIBE_TOPIC_PARTITIONS = 45, 46, 75
EVERYTHING = 0b110111111000
"""All operations on a topic."""
Fresh = Callable[[str], str]
Make = Callable[[str, int], Topic]
"""Creates a topic of so many partitions, all of which can be fetched, and led by the client's broker."""


def leads(client: Client, name: str) -> list[int]:
    """Replicas of partition 0, the leader first."""
    (found,) = described(client, [name]).topics
    return list(found.partitions[0].replica_nodes)


def described(client: Client, names: list[str], limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    body = {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": at}
    return client.exchange(DESCRIBE_TOPIC_PARTITIONS, 0, body)


def shown(response: Any) -> tuple[list[tuple[str, str, list[int]]], tuple[str, int] | None]:
    """Name, error and partitions of each topic, and the cursor."""
    topics = [
        (topic.name, topic.error_code.name, [each.partition_index for each in topic.partitions])
        for topic in response.topics
    ]
    cursor = response.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


class ReplicaApis:
    """The tests, for subclasses in modules with the fixtures ``client``, ``make`` and ``fresh``."""

    def test_describe_topic_partitions(self, client: Client, make: Make, fresh: Fresh) -> None:
        first, second, missing = sorted(fresh("described") for _ in range(3))
        for name in (first, second):
            make(name, 3)
        names = [missing, "in valid", second, first]
        everything = [
            (first, "none", [0, 1, 2]),
            (second, "none", [0, 1, 2]),
            (missing, "unknown_topic_or_partition", []),
            ("in valid", "invalid_topic_exception", []),
        ]
        response = described(client, names)
        assert shown(response) == (sorted(everything), None)
        found = {topic.name: topic for topic in response.topics}
        one, none = found[first], found[missing]
        assert (one.is_internal, one.topic_authorized_operations, one.topic_id is None) == (
            False,
            0b110111111000,
            False,
        )
        assert (none.is_internal, none.topic_authorized_operations, none.topic_id) == (False, 0b110111111000, None)
        partition = one.partitions[0]
        assert partition.leader_id == partition.replica_nodes[0]
        assert partition.replica_nodes == partition.isr_nodes
        assert (partition.eligible_leader_replicas, partition.last_known_elr, partition.offline_replicas) == (
            (),
            (),
            (),
        )
        assert partition.leader_epoch >= 0
        assert shown(described(client, [first, second], 2)) == ([(first, "none", [0, 1])], (first, 2))
        assert shown(described(client, [first, second], 3)) == ([(first, "none", [0, 1, 2])], (second, 0))
        assert shown(described(client, [first, second], 4, (first, 2))) == (
            [(first, "none", [2]), (second, "none", [0, 1, 2])],
            None,
        )
        assert shown(described(client, [first, second], 0, (second, 1))) == ([(second, "none", [1])], (second, 2))
        assert shown(described(client, [first, second], 9, (second, 7))) == ([(second, "none", [])], None)
        assert first in [topic.name for topic in described(client, []).topics]
        assert shown(described(client, [first], 1, (first, -1))) == ([(first, "invalid_request", [])], None)

    def test_log_dirs(self, client: Client, make: Make, fresh: Fresh) -> None:
        topic = make(fresh("dirs"), 1)
        batch = client_batch(3)
        produce(client, (topic, 0, batch), version=9)

        def dirs(version: int, topics: Any) -> Any:
            response = client.exchange(DESCRIBE_LOG_DIRS, version, {"topics": topics})
            (found,) = response.results
            return found

        for version in (1, 2, 4):
            found = dirs(version, [{"topic": topic.name, "partitions": [0, 9]}, {"topic": "nope", "partitions": [0]}])
            (known,) = found.topics
            (partition,) = known.partitions
            assert (found.error_code.name, known.name, partition.partition_index) == ("none", topic.name, 0)
            assert (partition.partition_size, partition.offset_lag, partition.is_future_key) == (len(batch), 0, False)
            assert Path(found.log_dir).is_dir()
        assert found.total_bytes >= found.usable_bytes > 0
        assert topic.name in [each.name for each in dirs(4, None).topics]
        assert dirs(4, []).topics == ()
        here = found.log_dir

        def altered(path: str, name: str, partition: int) -> str:
            body = {"dirs": [{"path": path, "topics": [{"name": name, "partitions": [partition]}]}]}
            (result,) = client.exchange(ALTER_REPLICA_LOG_DIRS, 2, body).results
            assert (result.topic_name, result.partitions[0].partition_index) == (name, partition)
            return str(result.partitions[0].error_code.name)

        assert altered(here, topic.name, 0) == "none"
        assert altered("/nowhere", topic.name, 0) == "log_dir_not_found"
        assert altered(here, topic.name, 9) == "unknown_topic_or_partition"
        assert altered(here, "nope", 0) == "unknown_topic_or_partition"

    def test_elections(self, client: Client, make: Make, fresh: Fresh) -> None:
        topic = make(fresh("elected"), 2)

        def elected(partitions: Any, election_type: int = 0) -> Any:
            body = {"election_type": election_type, "topic_partitions": partitions, "timeout": 10_000}
            response = client.exchange(ELECT_LEADERS, 2, body)
            return response.error_code.name, {
                result.topic: [
                    (each.partition_id, each.error_code.name, each.error_message) for each in result.partition_result
                ]
                for result in response.replica_election_results
            }

        not_needed = ("election_not_needed", "Leader election not needed for topic partition.")
        wanted = [{"topic": topic.name, "partitions": [0, 1, 9]}, {"topic": "nope", "partitions": [0]}]
        for election_type in (0, 1):
            assert elected(wanted, election_type) == (
                "none",
                {
                    topic.name: [
                        (0, *not_needed),
                        (1, *not_needed),
                        (9, "unknown_topic_or_partition", f"No such partition as {topic.name}-9"),
                    ],
                    "nope": [(0, "unknown_topic_or_partition", "No such topic as nope")],
                },
            )
        error, every = elected(None)
        assert (error, every[topic.name]) == ("none", []), "only what was not as it should be"
        assert elected([]) == ("none", {})
        unknown = (0, "invalid_request", "Unknown election type 5")
        one = [{"topic": topic.name, "partitions": [0]}]
        assert elected(one, 5) == ("invalid_request", {topic.name: [unknown]})

    def test_reassignments(self, client: Client, make: Make, fresh: Fresh) -> None:
        topic = make(fresh("moved"), 1)
        replicas = leads(client, topic.name)

        def altered(name: str, partition: int, to: list[int] | None, *, may_grow: bool = True) -> Any:
            item = {"partition_index": partition, "replicas": to}
            body = {
                "timeout": 10_000,
                "allow_replication_factor_change": may_grow,
                "topics": [{"name": name, "partitions": [item]}],
            }
            response = client.exchange(ALTER_PARTITION_REASSIGNMENTS, 1, body)
            assert (response.error_code.name, response.error_message) == ("none", None)
            assert response.allow_replication_factor_change == may_grow
            (found,) = response.responses[0].partitions
            return found.error_code.name, found.error_message

        said = "The manual partition assignment includes"
        assert altered(topic.name, 0, replicas) == ("none", None)
        assert altered(topic.name, 0, None) == ("no_reassignment_in_progress", None)
        assert altered(topic.name, 0, []) == ("invalid_replica_assignment", f"{said} an empty replica list.")
        assert altered(topic.name, 0, [replicas[0]] * 2) == (
            "invalid_replica_assignment",
            f"{said} the broker {replicas[0]} more than once.",
        )
        assert altered(topic.name, 0, [99]) == (
            "invalid_replica_assignment",
            f"{said} broker 99, but no such broker is registered.",
        )
        assert altered(topic.name, 9, replicas) == (
            "unknown_topic_or_partition",
            f"Unable to find partition {topic.name}:9.",
        )
        assert altered("nope", 0, replicas) == ("unknown_topic_or_partition", "Unable to find a topic named nope.")
        for topics in (
            None,
            [{"name": topic.name, "partition_indexes": [0]}, {"name": "nope", "partition_indexes": [7]}],
        ):
            listed = client.exchange(LIST_PARTITION_REASSIGNMENTS, 0, {"timeout": 10_000, "topics": topics})
            assert (listed.error_code.name, listed.error_message, listed.topics) == ("none", None, ())
