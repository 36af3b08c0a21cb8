"""Translates a scenario's request into the body of a Kafka request: defaults, shorthands, names for ids and bytes.

Fields have kio's names. Fields that a scenario omits have the values of an ordinary consumer of group ``g``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Protocol
from uuid import UUID

from muster.actors.wire.kafka import codec
from muster.placement.view import OFFSETS_TOPIC
from tests.group.driver import assignment, subscription
from tests.scenarios.language import Request
from tests.scenarios.values import Called, Ref, ScenarioError

API_KEYS = {
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "JoinGroup": 11,
    "Heartbeat": 12,
    "LeaveGroup": 13,
    "SyncGroup": 14,
    "DescribeGroups": 15,
    "ListGroups": 16,
    "InitProducerId": 22,
    "AddPartitionsToTxn": 24,
    "AddOffsetsToTxn": 25,
    "EndTxn": 26,
    "WriteTxnMarkers": 27,
    "TxnOffsetCommit": 28,
    "DeleteGroups": 42,
    "OffsetDelete": 47,
    "ConsumerGroupHeartbeat": 68,
    "ConsumerGroupDescribe": 69,
    "DescribeTransactions": 65,
    "ListTransactions": 66,
}
_UNSTABLE = {22: 6}
"""Versions that Kafka does not serve unless it is configured to."""
_RANGE = {"range": Called("subscription", ("t",))}
_GROUP = {"group_id": "g"}
_IN_TRANSACTION = {"transactional_id": "x", "producer_id": Called("pid", ("1",)), "producer_epoch": 0}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "OffsetCommit": {**_GROUP, "generation_id_or_member_epoch": -1, "member_id": "", "retention_time": -1},
    "OffsetFetch": {**_GROUP, "topics": None},
    "FindCoordinator": {"key": "g", "coordinator_keys": ["g"], "key_type": 0},
    "JoinGroup": {
        **_GROUP,
        "member_id": "",
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "protocol_type": "consumer",
        "protocols": _RANGE,
    },
    "Heartbeat": {**_GROUP, "member_id": ""},
    "LeaveGroup": _GROUP,
    "SyncGroup": {
        **_GROUP,
        "member_id": "",
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": {},
    },
    "DescribeGroups": {"groups": ["g"], "include_authorized_operations": False},
    "ListGroups": {},
    "DeleteGroups": {"groups_names": ["g"]},
    "OffsetDelete": _GROUP,
    "InitProducerId": {"transactional_id": "x", "transaction_timeout": 60_000},
    "AddPartitionsToTxn": {**_IN_TRANSACTION, "topics": ["t/0"], "verify_only": False},
    "AddOffsetsToTxn": {**_IN_TRANSACTION, **_GROUP},
    "EndTxn": {**_IN_TRANSACTION, "committed": True},
    "DescribeTransactions": {"transactional_ids": ["x"]},
    "ListTransactions": {"state_filters": [], "producer_id_filters": []},
    "WriteTxnMarkers": {},
    "TxnOffsetCommit": {**_IN_TRANSACTION, **_GROUP},
    "ConsumerGroupHeartbeat": {
        **_GROUP,
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
    },
    "ConsumerGroupDescribe": {"group_ids": ["g"], "include_authorized_operations": False},
}
_JOINING = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
_UNCHANGED = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
"""Fields of ConsumerGroupHeartbeat when a consumer joins, and when nothing has changed."""
_HEARTBEAT_SHORT = {
    "epoch": "member_epoch",
    "instance": "instance_id",
    "rack": "rack_id",
    "names": "subscribed_topic_names",
    "regex": "subscribed_topic_regex",
    "assignor": "server_assignor",
    "owned": "topic_partitions",
}
_OLD_ADD = ("transactional_id", "producer_id", "producer_epoch", "topics")
"""Fields of AddPartitionsToTxn below v4."""
_COMMIT_SHORT = {"offset": "committed_offset", "epoch": "committed_leader_epoch", "metadata": "committed_metadata"}


class Names(Protocol):
    """The world's values for the names of the scenario."""

    def member(self, ref: Ref) -> str: ...

    def group(self, name: str | None) -> str | None: ...

    def topic_id(self, name: str) -> UUID: ...

    def producer_id(self, number: int) -> int: ...

    def offsets_partition(self, group: str) -> int: ...


def body(request: Request, version: int, names: Names) -> dict[str, Any]:
    """Return the body for ``codec.encode_request``. Raises ScenarioError for a field that no version of the API has."""
    given = {_long(request.api, key): value for key, value in request.fields.items()}
    fields = {**_DEFAULTS[request.api], **given}
    if request.api == "ConsumerGroupHeartbeat":
        unsaid = _UNCHANGED if fields["member_epoch"] else _JOINING
        fields = {"member_id": request.client, **unsaid, **fields}
    expanded = _Expansion(request.api, version, names).expand(fields)
    unknown = expanded.keys() - _field_names(API_KEYS[request.api])
    if unknown:
        raise ScenarioError(f"{request.api} has no {', '.join(sorted(unknown))}")
    return expanded


def _long(api: str, name: str) -> str:
    """Short for names in the schemas, some of which differ by API."""
    if api == "ConsumerGroupHeartbeat":
        return _HEARTBEAT_SHORT.get(name, name)
    if name == "generation":
        return "generation_id_or_member_epoch" if api == "OffsetCommit" else "generation_id"
    return "group_instance_id" if name == "instance" else name


def newest(api_key: int) -> int:
    """Return the newest version of the API that Kafka serves."""
    return _UNSTABLE.get(api_key, codec.versions_of(api_key)[-1] + 1) - 1


@cache
def _field_names(api_key: int) -> frozenset[str]:
    kinds = [codec.request_type(api_key, version) for version in codec.versions_of(api_key)]
    return frozenset(field.name for kind in kinds for field in dataclasses.fields(kind)) | {"reason"}


class _Expansion:
    def __init__(self, api: str, version: int, names: Names) -> None:
        self._api = api
        self._version = version
        self._names = names

    def expand(self, fields: dict[str, Any]) -> dict[str, Any]:
        special: dict[str, Callable[[Any], Any]] = {
            "group_id": self._group,
            "protocols": self._protocols,
            "assignments": self._assignments,
            "members": self._leaving,
            "topics": self._topics,
            "transactional_id": self._group,
            "transactional_ids": self._group_names,
            "transactional_id_pattern": self._group,
            "markers": self._markers,
            "topic_partitions": self._owned,
            "group_ids": self._group_names,
        }
        if self._api in ("DescribeGroups", "DeleteGroups"):
            special |= {"groups": self._group_names, "groups_names": self._group_names}
        if self._api == "OffsetFetch":
            return self._fetch(fields, special)
        if self._api == "AddPartitionsToTxn":
            return self._add_partitions(fields)
        if self._api == "FindCoordinator":
            special |= {"key": self._group, "coordinator_keys": self._group_names}
            if fields["key_type"] != 0:
                special = {}
        return {name: special.get(name, self.plain)(value) for name, value in fields.items()}

    def _fetch(self, fields: dict[str, Any], special: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
        groups = fields.pop("groups", None)
        own = {name: fields.pop(name) for name in ("member_id", "member_epoch") if name in fields}
        if groups is None:
            groups = [{"group_id": fields["group_id"], "topics": fields["topics"], **own}]
        plain = {name: special.get(name, self.plain)(value) for name, value in fields.items()}
        plain["groups"] = [
            {name: special.get(name, self.plain)(value) for name, value in {"topics": None, **group}.items()}
            for group in groups
        ]
        return plain

    def _add_partitions(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields as one producer's request, and as one of brokers, with perhaps several ``transactions``."""
        parts = [{**fields, **each} for each in fields.pop("transactions", [{}])]
        transactions = [
            {
                **{name: self.plain(value) for name, value in part.items()},
                "transactional_id": self._group(part["transactional_id"]),
                "topics": self._topics_to_add(part["topics"]),
            }
            for part in parts
        ]
        return {"transactions": transactions, **{f"v3_and_below_{name}": transactions[0][name] for name in _OLD_ADD}}

    def _topics_to_add(self, partitions: list[str]) -> list[dict[str, Any]]:
        by_topic: dict[str, list[int]] = {}
        for topic, index in map(split_partition, partitions):
            by_topic.setdefault(topic, []).append(index)
        return [{"name": name, "partitions": indexes} for name, indexes in by_topic.items()]

    def plain(self, value: Any) -> Any:
        """Return a plain value, with references and calls resolved."""
        if isinstance(value, Ref):
            return self._names.member(value)
        if isinstance(value, Called):
            return self._call(value)
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        return value

    def _call(self, called: Called) -> Any:
        match called.name:
            case "subscription":
                return subscription(*called.args)
            case "assignment":
                return assignment(*map(split_partition, called.args))
            case "bytes":
                return bytes.fromhex("".join(called.args))
            case "id":
                return self._names.topic_id(*called.args)
            case "pid":
                return self._names.producer_id(int(called.args[0]))
            case "units":
                return "x" * int(called.args[0])
        raise ScenarioError(f"there is no {called.name}()")

    def _bytes(self, value: Any) -> bytes:
        made = self.plain(value)
        return made.encode() if isinstance(made, str) else made

    def _group(self, name: Any) -> str | None:
        return self._names.group(self.plain(name))

    def _group_names(self, groups: Iterable[Any]) -> list[str | None]:
        return [self._group(group) for group in groups]

    def _protocols(self, protocols: Any) -> list[dict[str, Any]]:
        """``{range: subscription(t)}``, or ``[[range, ...], ...]`` for repeated names."""
        pairs = protocols.items() if isinstance(protocols, dict) else protocols
        return [{"name": self.plain(name), "metadata": self._bytes(data)} for name, data in pairs]

    def _assignments(self, assignments: Any) -> list[dict[str, Any]]:
        """Read ``{@A: assignment(t/0)}``, or ``[[@A, ...], ...]`` for repeated members."""
        pairs = assignments.items() if isinstance(assignments, dict) else assignments
        return [{"member_id": self.plain(member), "assignment": self._bytes(data)} for member, data in pairs]

    def _leaving(self, members: list[Any]) -> list[dict[str, Any]]:
        """Read ``[@A, {instance: I}, {member_id: @A, instance: I, reason: why}]``."""
        return [self._leaver(each if isinstance(each, dict) else {"member_id": each}) for each in members]

    def _leaver(self, fields: dict[str, Any]) -> dict[str, Any]:
        named = {_long(self._api, name): self.plain(value) for name, value in fields.items()}
        return {"member_id": "", "group_instance_id": None, "reason": None, **named}

    def _markers(self, markers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """``[{producer_id: pid(1), producer_epoch: 0, commit: true, of: [g, h]}]``: for the offsets of these groups."""
        return [self._marker({"producer_epoch": 0, "coordinator_epoch": 0, **marker}) for marker in markers]

    def _marker(self, fields: dict[str, Any]) -> dict[str, Any]:
        partitions = [self._names.offsets_partition(group) for group in fields.pop("of")]
        named = {name: self.plain(value) for name, value in fields.items() if name != "commit"}
        topics = [{"name": OFFSETS_TOPIC, "partition_indexes": partitions}]
        return {**named, "transaction_result": fields["commit"], "topics": topics, "transaction_version": 0}

    def _topics(self, partitions: Any) -> list[dict[str, Any]] | None:
        """``{t/0: 42, t/1: {offset: 5, metadata: "x", epoch: 3}}`` or ``[t/0, t/1]``; a name without / is a topic."""
        if partitions is None:
            return None
        by_topic: dict[str, list[Any]] = {}
        items = partitions.items() if isinstance(partitions, dict) else ((each, None) for each in partitions)
        for place, said in items:
            name, slash, index = str(place).rpartition("/")
            if slash:
                by_topic.setdefault(name, []).append(self._partition(int(index), said))
            else:
                by_topic.setdefault(index, [])
        return [self._topic(name, listed) for name, listed in by_topic.items()]

    def _owned(self, partitions: list[str] | None) -> list[dict[str, Any]] | None:
        """``[t/0, t/1]``."""
        if partitions is None:
            return None
        by_topic: dict[str, list[int]] = {}
        for topic, index in map(split_partition, partitions):
            by_topic.setdefault(topic, []).append(index)
        return [{"topic_id": self._names.topic_id(topic), "partitions": indexes} for topic, indexes in by_topic.items()]

    def _topic(self, name: str, listed: list[Any]) -> dict[str, Any]:
        topic: dict[str, Any] = {"name": name, "partitions": listed}
        if self._api == "OffsetFetch":
            topic = {"name": name, "partition_indexes": listed}
        if self._api != "OffsetDelete" and self._version >= 10:
            topic["topic_id"] = self._names.topic_id(name)
        return topic

    def _partition(self, index: int, said: Any) -> Any:
        if self._api == "OffsetFetch":
            return index
        if said is None:
            return {"partition_index": index}
        fields = said if isinstance(said, dict) else {"offset": said}
        named = {_COMMIT_SHORT.get(name, name): self.plain(value) for name, value in fields.items()}
        return {"partition_index": index, "committed_metadata": "", **named}


def split_partition(text: str) -> tuple[str, int]:
    """``t/0`` as topic and partition."""
    topic, _, index = text.rpartition("/")
    return topic, int(index)
