"""Changes by Kafka requests, read from the request and its response.

Values of configs, which may be secrets, and passwords are never part of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.administration.trail import Change
from muster.placement.security.acls import AclOperation, AclPatternType, AclPermission, AclResourceType

_CONFIG_RESOURCES = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
OFFSET_COMMIT, LEAVE_GROUP = 8, 13

NameOf = Callable[[UUID], str | None]
Read = Callable[[str, Any, Any, NameOf], Iterable[Change]]
"""Reads the changes from the API's name, the request, the response, and the names of topics by id."""


def _error(code: Any) -> str:
    return ErrorCode(code).name.upper()


def _topics(name: str, request: Any, response: Any, _names: NameOf) -> Iterator[Change]:
    if field(request, "validate_only", False):
        return
    results = field(response, "topics", None) or field(response, "responses", None) or field(response, "results", ())
    for each in results:
        topic = each.name if each.name is not None else str(field(each, "topic_id", ""))
        yield Change(name, "TOPIC", topic, _error(each.error_code))


def _configs(name: str, request: Any, response: Any, _names: NameOf) -> Iterator[Change]:
    if request.validate_only:
        return
    keys = {
        (each.resource_type, each.resource_name): ", ".join(sorted(config.name for config in each.configs))
        for each in request.resources
    }
    for each in response.responses:
        kind = _CONFIG_RESOURCES.get(each.resource_type, str(each.resource_type))
        detail = keys.get((each.resource_type, each.resource_name))
        yield Change(name, kind, each.resource_name, _error(each.error_code), detail)


def _of_partitions(name: str, kind: str, resource: str, topics: Iterable[Any], names: NameOf) -> Iterator[Change]:
    """One change for each topic and error."""
    for topic in topics:
        errors = Counter(_error(partition.error_code) for partition in topic.partitions)
        for error, count in sorted(errors.items()):
            topic_id = field(topic, "topic_id", None)
            topic_name = field(topic, "name", None) or names(topic_id) or str(topic_id)
            detail = f"{topic_name}, {count} partitions" if resource else f"{count} partitions"
            yield Change(name, kind, resource or topic_name, error, detail)


def _records(name: str, _: Any, response: Any, names: NameOf) -> Iterator[Change]:
    return _of_partitions(name, "TOPIC", "", response.topics, names)


def _reassigned(name: str, _: Any, response: Any, names: NameOf) -> Iterator[Change]:
    return _of_partitions(name, "TOPIC", "", response.responses, names)


def _commits(name: str, request: Any, response: Any, names: NameOf) -> Iterator[Change]:
    return _of_partitions(name, "GROUP", request.group_id, response.topics, names)


def _markers(name: str, request: Any, response: Any, names: NameOf) -> Iterator[Change]:
    for wanted, done in zip(request.markers, response.markers, strict=False):
        outcome = "committed" if wanted.transaction_result else "aborted"
        for change in _of_partitions(name, "TOPIC", "", done.topics, names):
            yield change._replace(detail=f"transaction of producer {wanted.producer_id} {outcome}, {change.detail}")


def _offset_delete(name: str, request: Any, response: Any, names: NameOf) -> Iterable[Change]:
    if response.error_code is not ErrorCode.none:
        return [Change(name, "GROUP", request.group_id, _error(response.error_code))]
    return _of_partitions(name, "GROUP", request.group_id, response.topics, names)


def _groups(name: str, _: Any, response: Any, _names: NameOf) -> Iterator[Change]:
    for each in response.results:
        yield Change(name, "GROUP", each.group_id, _error(each.error_code))


def _evictions(name: str, request: Any, response: Any, _names: NameOf) -> Iterator[Change]:
    if response.error_code is not ErrorCode.none or not field(response, "members", ()):
        yield Change(name, "GROUP", request.group_id, _error(response.error_code))
        return
    for member in response.members:
        who = member.group_instance_id or member.member_id
        yield Change(name, "GROUP", request.group_id, _error(member.error_code), f"member {who}")


def _created_acls(name: str, request: Any, response: Any, _names: NameOf) -> Iterator[Change]:
    for acl, result in zip(request.creations, response.results, strict=False):
        pattern = field(acl, "resource_pattern_type", 3)
        detail = _acl_text(acl.permission_type, acl.operation, acl.principal, acl.host, pattern)
        kind = _name(AclResourceType, acl.resource_type)
        yield Change(name, kind, acl.resource_name, _error(result.error_code), detail)


def _deleted_acls(name: str, request: Any, response: Any, _names: NameOf) -> Iterator[Change]:
    for wanted, result in zip(request.filters, response.filter_results, strict=False):
        kind = _name(AclResourceType, wanted.resource_type_filter)
        if result.error_code is not ErrorCode.none or not result.matching_acls:
            pattern = field(wanted, "pattern_type_filter", 3)
            who, host = wanted.principal_filter or "any", wanted.host_filter or "any"
            detail = _acl_text(wanted.permission_type, wanted.operation, who, host, pattern)
            yield Change(name, kind, wanted.resource_name_filter, _error(result.error_code), detail)
        for acl in result.matching_acls:
            pattern = field(acl, "pattern_type", 3)
            detail = _acl_text(acl.permission_type, acl.operation, acl.principal, acl.host, pattern)
            kind = _name(AclResourceType, acl.resource_type)
            yield Change(name, kind, acl.resource_name, _error(acl.error_code), detail)


def _acl_text(permission: int, operation: int, principal: str, host: str, pattern: int) -> str:
    allowed, done = _name(AclPermission, permission), _name(AclOperation, operation)
    return f"{allowed} {done} to {principal} from {host}, {_name(AclPatternType, pattern)}"


def _name(kind: Any, code: int) -> str:
    try:
        return str(kind(code).name)
    except ValueError:
        return str(int(code))


def _quotas(name: str, request: Any, response: Any, _names: NameOf) -> Iterator[Change]:
    if request.validate_only:
        return
    for entry, result in zip(request.entries, response.entries, strict=False):
        entity = ", ".join(f"{part.entity_type} {_default(part.entity_name)}" for part in entry.entity)
        detail = ", ".join(f"{op.key} removed" if op.remove else f"{op.key}={float(op.value):.15g}" for op in entry.ops)
        yield Change(name, "CLIENT_QUOTA", entity, _error(result.error_code), detail)


def _default(name: str | None) -> str:
    return "<default>" if name is None else name


def _users(name: str, request: Any, response: Any, _names: NameOf) -> Iterator[Change]:
    removed = {each.name for each in request.deletions}
    written = {each.name for each in request.upsertions}
    for each in response.results:
        kinds = (("written", written), ("removed", removed))
        detail = ", ".join(kind for kind, users in kinds if each.user in users)
        yield Change(name, "USER", each.user, _error(each.error_code), f"credential {detail}")


READERS: Mapping[int, tuple[str, Read]] = {
    OFFSET_COMMIT: ("OffsetCommit", _commits),
    LEAVE_GROUP: ("LeaveGroup", _evictions),
    19: ("CreateTopics", _topics),
    20: ("DeleteTopics", _topics),
    21: ("DeleteRecords", _records),
    27: ("WriteTxnMarkers", _markers),
    30: ("CreateAcls", _created_acls),
    31: ("DeleteAcls", _deleted_acls),
    33: ("AlterConfigs", _configs),
    37: ("CreatePartitions", _topics),
    42: ("DeleteGroups", _groups),
    44: ("IncrementalAlterConfigs", _configs),
    45: ("AlterPartitionReassignments", _reassigned),
    47: ("OffsetDelete", _offset_delete),
    49: ("AlterClientQuotas", _quotas),
    51: ("AlterUserScramCredentials", _users),
}
"""By API key."""


def is_by_members(api_key: int, peeked: Any, entity: Callable[[], Any], connections_group: str | None) -> bool:
    """Whether a group's member does it, so that no one administers.

    ``peeked`` is what the API's module has read of the request, ``connections_group`` the group that the connection
    works for.
    """
    if api_key == OFFSET_COMMIT:
        request = peeked if peeked is not None else entity()
        generation = field(request, "generation_id", None)
        return bool((field(request, "generation_id_or_member_epoch", -1) if generation is None else generation) >= 0)
    return api_key == LEAVE_GROUP and bool(entity().group_id == connections_group)
