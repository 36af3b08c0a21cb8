"""Names in the requests of each Kafka API, for the scopes of faults. A fault cannot have any other API.

Source: the request schemas of Apache Kafka 4. The table is here since the controller checks faults without a gateway;
``tests/gateway/faults/test_fault_responses.py`` compares it with what gateways serve.
"""

from __future__ import annotations

from collections.abc import Mapping

GROUP, MEMBER, TOPIC, PARTITION = "group", "member", "topic", "partition"

NAMED_BY: Mapping[str, frozenset[str]] = {
    "Produce": frozenset({TOPIC, PARTITION}),
    "Fetch": frozenset({TOPIC, PARTITION}),
    "ListOffsets": frozenset({TOPIC, PARTITION}),
    "Metadata": frozenset({TOPIC}),
    "OffsetCommit": frozenset({GROUP, MEMBER, TOPIC, PARTITION}),
    "OffsetFetch": frozenset({GROUP, MEMBER, TOPIC, PARTITION}),
    "TxnOffsetCommit": frozenset({GROUP, MEMBER, TOPIC, PARTITION}),
    "FindCoordinator": frozenset({GROUP}),
    "JoinGroup": frozenset({GROUP, MEMBER}),
    "Heartbeat": frozenset({GROUP, MEMBER}),
    "LeaveGroup": frozenset({GROUP, MEMBER}),
    "SyncGroup": frozenset({GROUP, MEMBER}),
    "DescribeGroups": frozenset({GROUP}),
    "ListGroups": frozenset(),
    "SaslHandshake": frozenset(),
    "ApiVersions": frozenset(),
    "CreateTopics": frozenset({TOPIC}),
    "DeleteTopics": frozenset({TOPIC}),
    "DeleteRecords": frozenset({TOPIC, PARTITION}),
    "InitProducerId": frozenset(),
    "OffsetForLeaderEpoch": frozenset({TOPIC, PARTITION}),
    "AddPartitionsToTxn": frozenset({TOPIC, PARTITION}),
    "AddOffsetsToTxn": frozenset({GROUP}),
    "EndTxn": frozenset(),
    "WriteTxnMarkers": frozenset({TOPIC, PARTITION}),
    "AlterReplicaLogDirs": frozenset({TOPIC, PARTITION}),
    "DescribeLogDirs": frozenset({TOPIC, PARTITION}),
    "ElectLeaders": frozenset({TOPIC, PARTITION}),
    "AlterPartitionReassignments": frozenset({TOPIC, PARTITION}),
    "ListPartitionReassignments": frozenset({TOPIC, PARTITION}),
    "DescribeTopicPartitions": frozenset({TOPIC}),
    "DescribeAcls": frozenset(),
    "CreateAcls": frozenset(),
    "DeleteAcls": frozenset(),
    "DescribeClientQuotas": frozenset(),
    "AlterClientQuotas": frozenset(),
    "DescribeConfigs": frozenset(),
    "AlterConfigs": frozenset(),
    "IncrementalAlterConfigs": frozenset(),
    "SaslAuthenticate": frozenset(),
    "DescribeUserScramCredentials": frozenset(),
    "AlterUserScramCredentials": frozenset(),
    "CreatePartitions": frozenset({TOPIC}),
    "DeleteGroups": frozenset({GROUP}),
    "OffsetDelete": frozenset({GROUP, TOPIC, PARTITION}),
    "DescribeCluster": frozenset(),
    "DescribeQuorum": frozenset(),
    "UpdateFeatures": frozenset(),
    "UnregisterBroker": frozenset(),
    "DescribeProducers": frozenset({TOPIC, PARTITION}),
    "DescribeTransactions": frozenset(),
    "ListTransactions": frozenset(),
    "GetTelemetrySubscriptions": frozenset(),
    "PushTelemetry": frozenset(),
    "ListConfigResources": frozenset(),
    "ConsumerGroupHeartbeat": frozenset({GROUP, MEMBER}),
    "ConsumerGroupDescribe": frozenset({GROUP}),
}
"""By Kafka's name of the API. ``partition`` is that of a topic; a group's partition follows from ``group``."""
