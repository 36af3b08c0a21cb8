"""ACLs in ZooKeeper: Kafka's paths and JSON. No I/O. Source: ``kafka.zk.ZkData`` (Kafka 3.9)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from muster.placement.layout import Malformed
from muster.placement.security.acls import OPERATIONS, PERMISSIONS, Acl, AclPattern, AclPatternType, AclResourceType

LITERAL_ACLS = "/kafka-acl"
PREFIXED_ACLS = "/kafka-acl-extended/prefixed"
LITERAL_CHANGES = "/kafka-acl-changes"
PREFIXED_CHANGES = "/kafka-acl-extended-changes"
_CHANGE = "acl_changes_"

_OPERATIONS = {operation.kafka_name: operation for operation in OPERATIONS}
_PERMISSIONS = {permission.kafka_name: permission for permission in PERMISSIONS}
_PARENTS = {AclPatternType.LITERAL: LITERAL_ACLS, AclPatternType.PREFIXED: PREFIXED_ACLS}

_NO_NODE = re.compile("/|[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
"""Strings that no node's name has: see ``PathUtils.validatePath`` of ZooKeeper."""


def has_node(name: str) -> bool:
    """Whether ACLs of resources of that name can be stored: ZooKeeper does not have a node of every name."""
    return name not in (".", "..", "zookeeper", "") and not _NO_NODE.search(name)


def parent_path(pattern_type: AclPatternType, resource_type: AclResourceType) -> str:
    """Return the parent of the nodes of patterns of these types."""
    return f"{_PARENTS[pattern_type]}/{resource_type.kafka_name}"


def acl_path(pattern: AclPattern) -> str:
    """Return the node of the ACLs of that pattern."""
    return f"{parent_path(pattern.pattern_type, pattern.resource_type)}/{pattern.name}"


def encode_acls(acls: Iterable[Acl]) -> bytes:
    """Encode the ACLs of one pattern: Kafka's JSON, version 1."""
    fields = [
        {
            "principal": acl.principal,
            "permissionType": acl.permission.kafka_name,
            "operation": acl.operation.kafka_name,
            "host": acl.host,
        }
        for acl in sorted(set(acls))
    ]
    return _dump({"version": 1, "acls": fields})


def decode_acls(pattern: AclPattern, data: bytes) -> frozenset[Acl]:
    """Return the ACLs of that pattern. Raises Malformed."""
    try:
        fields = json.loads(data)["acls"]
        return frozenset(
            Acl(
                pattern,
                str(each["principal"]),
                str(each["host"]),
                _OPERATIONS[each["operation"]],
                _PERMISSIONS[each["permissionType"]],
            )
            for each in fields
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed(f"not ACLs: {data!r}") from error


def change_notification(pattern: AclPattern) -> tuple[str, bytes]:
    """Prefix of the path of a sequential node, and its data, which make Kafka read the pattern's ACLs again."""
    kind = pattern.resource_type.name
    if pattern.pattern_type is AclPatternType.LITERAL:
        return f"{LITERAL_CHANGES}/{_CHANGE}", f"{kind}:{pattern.name}".encode()
    fields = {"version": 1, "resourceType": kind, "name": pattern.name, "patternType": pattern.pattern_type.name}
    return f"{PREFIXED_CHANGES}/{_CHANGE}", _dump(fields)


def _dump(fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
