"""Decides what a client may do, by ACLs. No I/O. Sources: Kafka's StandardAuthorizerData and ``Authorizer``, KIP-11."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from muster.placement.security.acls import (
    ANYONE,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

_CACHED = 16_384
"""Maximum number of remembered verdicts; then all are forgotten."""
_CACHED_CHARS = 255
"""The longest name whose verdict is remembered: clients choose names, and topics have at most 249 characters."""


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_ALL = _bits(*OPERATIONS)
_DESCRIBE, _DESCRIBE_CONFIGS = _bits(AclOperation.DESCRIBE), _bits(AclOperation.DESCRIBE_CONFIGS)
_IMPLIED: Mapping[AclOperation, int] = {
    AclOperation.READ: _DESCRIBE,
    AclOperation.WRITE: _DESCRIBE,
    AclOperation.DELETE: _DESCRIBE,
    AclOperation.ALTER: _DESCRIBE,
    AclOperation.ALTER_CONFIGS: _DESCRIBE_CONFIGS,
}
"""Operations that an ACL which allows one allows as well. One that denies it denies nothing else."""

SUPPORTED: Mapping[AclResourceType, int] = {
    AclResourceType.TOPIC: _bits(
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: _bits(
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: _bits(
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: _bits(AclOperation.WRITE, AclOperation.DESCRIBE),
    AclResourceType.DELEGATION_TOKEN: _DESCRIBE,
    AclResourceType.USER: _bits(AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that mean something for a resource, as bits of KIP-430. Source: Kafka's AclEntry."""


@dataclass(slots=True)
class _Rights:
    """Rights in the ACLs of one pattern for one principal and host, as bits of operations."""

    denied: int = 0
    allowed: int = 0
    implied: int = 0
    """Operations that are allowed only because something else is."""

    def add(self, acl: Acl) -> None:
        named = _ALL if acl.operation is AclOperation.ALL else 1 << acl.operation
        if acl.permission is AclPermission.DENY:
            self.denied |= named
        else:
            self.allowed |= named
            self.implied |= _IMPLIED.get(acl.operation, 0)


_Hosts = dict[str, _Rights]
_Pattern = dict[str, _Hosts]
"""Rights by principal, then by host."""


@dataclass(slots=True)
class _OfType:
    """The ACLs of one type of resources."""

    literals: dict[str, _Pattern] = field(default_factory=dict)
    prefixes: dict[str, _Pattern] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    """Lengths of the prefixes, in characters, ascending, each once."""
    literals_of: dict[str, dict[str, _Hosts]] = field(default_factory=dict)
    """Rights of ``literals`` by principal, then by name; and those of prefixes."""
    prefixes_of: dict[str, dict[str, _Hosts]] = field(default_factory=dict)

    def matching(self, name: str) -> Iterator[_Pattern]:
        """Yield the patterns that apply to the resource of that name, with a look-up for each length of prefixes."""
        if (literal := self.literals.get(name)) is not None:
            yield literal
        if name != WILDCARD and (wildcard := self.literals.get(WILDCARD)) is not None:
            yield wildcard
        for length in self.lengths:
            if length > len(name):
                break
            if (prefix := self.prefixes.get(name[:length])) is not None:
                yield prefix


class Authorizer:
    """Rights of every client. It never changes: other ACLs need another one.

    A principal is ``Type:name``, a host the text of an IP address. All comparisons are case-sensitive.
    """

    def __init__(self, acls: Iterable[Acl], super_users: Iterable[str], *, allow_everyone: bool) -> None:
        """``allow_everyone``: whether everyone may do everything with a resource that no ACL is about."""
        self.acls = frozenset(acls)
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._of_type = {kind: _OfType() for kind in AclResourceType}
        self._allowed: dict[tuple[str, str, int, str], int] = {}
        """The operations that are allowed, by principal, host, resource type and name."""
        self._any: dict[tuple[str, str, int, int], bool] = {}
        for acl in self.acls:
            self._add(acl)
        for of_type in self._of_type.values():
            of_type.lengths = sorted({len(prefix) for prefix in of_type.prefixes})

    def _add(self, acl: Acl) -> None:
        of_type = self._of_type[acl.pattern.resource_type]
        _, name, style = acl.pattern
        if style is AclPatternType.PREFIXED:
            patterns, of_principals = of_type.prefixes, of_type.prefixes_of
        else:
            patterns, of_principals = of_type.literals, of_type.literals_of
        hosts = patterns.setdefault(name, {}).setdefault(acl.principal, {})
        of_principals.setdefault(acl.principal, {})[name] = hosts
        hosts.setdefault(_same_host(acl.host), _Rights()).add(acl)

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Whether the client may do that with the resource of that name."""
        key = (principal, host, resource, name)
        allowed = self._allowed.get(key)
        if allowed is None:
            allowed = self._remember(key)
        return bool(allowed >> operation & 1)

    def operations(self, principal: str, host: str, resource: AclResourceType, name: str) -> int:
        """Return the client's operations on the resource of that name: ``1 << operation`` for each (KIP-430)."""
        key = (principal, host, resource, name)
        allowed = self._allowed.get(key)
        if allowed is None:
            allowed = self._remember(key)
        return allowed & SUPPORTED[resource]

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        """Whether there may be a resource of that type, existing or not, with which the client may do that."""
        key = (principal, host, operation, resource)
        if key not in self._any:
            if len(self._any) >= _CACHED:
                self._any.clear()
            self._any[key] = self._decide_any(*key)
        return self._any[key]

    def _remember(self, key: tuple[str, str, AclResourceType, str]) -> int:
        allowed = self._decide(*key)
        if len(key[3]) <= _CACHED_CHARS:
            if len(self._allowed) >= _CACHED:
                self._allowed.clear()
            self._allowed[key] = allowed
        return allowed

    def _decide(self, principal: str, host: str, resource: AclResourceType, name: str) -> int:
        if principal in self._super_users:
            return _ALL
        denied = allowed = 0
        has_acls = False
        for pattern in self._of_type[resource].matching(name):
            has_acls = True
            for rights in _of_client(pattern, principal, host):
                denied |= rights.denied
                allowed |= rights.allowed | rights.implied
        if not has_acls and self._allow_everyone:
            return _ALL
        return allowed & ~denied

    def _decide_any(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        if principal in self._super_users:
            return True
        of_type = self._of_type[resource]

        bit = 1 << operation
        denied, allowed = _names(of_type.literals_of, principal, host, bit)
        if WILDCARD in denied:
            return False
        if self._allow_everyone and WILDCARD not in of_type.literals:
            return True
        if WILDCARD in allowed:
            return True
        denied_prefixes, allowed_prefixes = _names(of_type.prefixes_of, principal, host, bit)
        lengths = {len(prefix) for prefix in denied_prefixes}
        return any(
            not any(name[:length] in denied_prefixes for length in lengths if length <= len(name))
            for name in (allowed - denied) | allowed_prefixes
        )


def _names(
    of_principals: Mapping[str, Mapping[str, _Hosts]], principal: str, host: str, bit: int
) -> tuple[set[str], set[str]]:
    """Return the names for which ACLs deny the operation to the client, and those for which they allow it by name."""
    denied: set[str] = set()
    allowed: set[str] = set()
    for who in (principal, ANYONE):
        for name, hosts in of_principals.get(who, {}).items():
            for where in (host, WILDCARD):
                if (rights := hosts.get(where)) is not None:
                    if rights.denied & bit:
                        denied.add(name)
                    if rights.allowed & bit:
                        allowed.add(name)
    return denied, allowed


def _of_client(pattern: _Pattern, principal: str, host: str) -> Iterator[_Rights]:
    for who in (principal, ANYONE):
        hosts = pattern.get(who)
        if hosts is not None:
            for where in (host, WILDCARD):
                if (rights := hosts.get(where)) is not None:
                    yield rights


@lru_cache(1024)
def _same_host(text: str) -> str:
    """Return an IP address as connections have it, however it was written; any other text as it is."""
    try:
        address = ip_address(text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
