"""ACLs: their types, numbered as in Kafka's protocol, and filters.

Sources: Kafka's ``org.apache.kafka.common.acl`` and ``.resource``, KIP-11, KIP-290.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

WILDCARD = "*"
"""Any resource of the type, as the name of a literal pattern; any host, as a host."""
ANYONE = "User:*"
"""The principal of an ACL that applies to every client."""
CLUSTER_NAME = "kafka-cluster"
"""The only name of a resource of the type CLUSTER."""


class _Named(IntEnum):
    @property
    def kafka_name(self) -> str:
        """Name in ZooKeeper, in logs and in the options of tools: ``TransactionalId``."""
        return self.name.title().replace("_", "")


class AclResourceType(_Named):
    """Type of the resource of an ACL."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(_Named):
    """Operation that an ACL allows or denies; ``1 << operation`` is its bit in the authorized operations of KIP-430."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(_Named):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclPatternType(_Named):
    """How the name of an ACL is compared with the name of a resource. ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPattern(NamedTuple):
    """The resources that an ACL is about."""

    resource_type: AclResourceType
    name: str
    pattern_type: AclPatternType

    def applies_to(self, name: str) -> bool:
        """Whether it is about the resource of its type with that name."""
        if self.pattern_type is AclPatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class Acl(NamedTuple):
    """One ACL, Kafka's AclBinding."""

    pattern: AclPattern
    principal: str
    """``Type:name``."""
    host: str
    """An IP address, or ``*``."""
    operation: AclOperation
    permission: AclPermission


class AclFilter(NamedTuple):
    """Which ACLs a request is about. ANY, and None, match everything."""

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: AclPatternType = AclPatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether the ACL is one of those."""
        return (
            self.matches_pattern(acl.pattern)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
        )

    def matches_pattern(self, pattern: AclPattern) -> bool:
        """Whether ACLs with that pattern may be among those."""
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type is AclPatternType.MATCH:
            return self.name is None or pattern.applies_to(self.name)
        return self.pattern_type in (AclPatternType.ANY, pattern.pattern_type) and self.name in (None, pattern.name)


_BY_NUMBER: dict[type[IntEnum], tuple[Any, ...]] = {
    kind: tuple(kind) for kind in (AclResourceType, AclPatternType, AclOperation, AclPermission)
}
"""Their members; the first is 0."""


class Acls:
    """A set of ACLs, as a cluster's view carries it: packed, as all processes get it with every view, and few read it.

    Equal sets are packed alike.
    """

    __slots__ = ("_packed", "_size")

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        rows = [(*acl.pattern, *acl[1:]) for acl in sorted(set(acls))]
        self._size = len(rows)
        self._packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1) if rows else b""

    def __iter__(self) -> Iterator[Acl]:
        """In the order of patterns."""
        pattern = AclPattern(AclResourceType.UNKNOWN, "", AclPatternType.UNKNOWN)
        for kind, name, style, principal, host, operation, permission in self._rows():
            if tuple(pattern) != (kind, name, style):
                pattern = AclPattern(_BY_NUMBER[AclResourceType][kind], name, _BY_NUMBER[AclPatternType][style])
            operation, permission = _BY_NUMBER[AclOperation][operation], _BY_NUMBER[AclPermission][permission]
            yield Acl(pattern, principal, host, operation, permission)

    def _rows(self) -> list[Any]:
        rows: list[Any] = json.loads(zlib.decompress(self._packed)) if self._packed else []
        return rows

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Acls) and self._packed == other._packed

    def __hash__(self) -> int:
        return hash(self._packed)

    def __repr__(self) -> str:
        return f"<{self._size} ACLs>"


RESOURCE_TYPES = tuple(each for each in AclResourceType if each > AclResourceType.ANY)
"""Resource types of ACLs; the others are for filters."""
PATTERN_TYPES = (AclPatternType.LITERAL, AclPatternType.PREFIXED)
"""Pattern types of ACLs; the others are for filters."""
OPERATIONS = tuple(each for each in AclOperation if each > AclOperation.ANY)
"""Operations of ACLs; the others are for filters."""
PERMISSIONS = (AclPermission.DENY, AclPermission.ALLOW)
