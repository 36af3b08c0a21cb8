"""Filters of DescribeClientQuotas, and alterations of AlterClientQuotas (KIP-546). Errors and texts are Kafka's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from muster.gateway.quotas.limits import QuotaKey
from muster.gateway.quotas.reading import CONNECTION_CREATION_RATE, Entities, quota_of
from muster.placement.security.entities import CLIENT_ID, IP, USER, Entity, EntityAlteration

_CLIENT_KEYS = frozenset(key.value for key in QuotaKey)
_WHOLE = frozenset((QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE))
_TYPES = (USER, CLIENT_ID, IP)
_EPSILON = 1e-6
_MAX_LONG = 2**63 - 1


class BadQuotas(ValueError):
    """The request, or an entry of it, is refused with INVALID_REQUEST."""


class UnknownEntityType(ValueError):
    """A filter has an entity type that does not exist."""


class Match(IntEnum):
    """Which names of a type a filter selects."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


_MATCHES = frozenset(match.value for match in Match)


class Component(NamedTuple):
    """A part of a filter."""

    entity_type: str
    match: int
    name: str | None


class Operation(NamedTuple):
    """A change of one quota."""

    key: str
    value: float
    remove: bool


def described(
    entities: Entities, components: Sequence[Component], *, strict: bool
) -> list[tuple[Entity, dict[str, float]]]:
    """Return the entities that the filter selects, with their quotas. Raises BadQuotas or UnknownEntityType.

    ``strict``: whether entities may have no further types.
    """
    _check_filter(components)
    selected = ((entity, quotas_of(configs)) for entity, configs in entities.items())
    found = [(entity, quotas) for entity, quotas in selected if quotas and _fits(entity, components, strict=strict)]
    return sorted(found, key=lambda each: [(kind, name is not None, name or "") for kind, name in each[0].parts])


def quotas_of(configs: Mapping[str, str]) -> dict[str, float]:
    """Return the quotas among the configs of an entity, which may be credentials as well."""
    found = {name: quota_of(configs[name]) for name in sorted(configs) if name in {*_CLIENT_KEYS, *_IP_KEYS}}
    return {name: quota for name, quota in found.items() if quota is not None}


_IP_KEYS = frozenset((CONNECTION_CREATION_RATE,))


def _check_filter(components: Sequence[Component]) -> None:
    types = [each.entity_type for each in components]
    for entity_type, match, name in components:
        if not entity_type:
            raise BadQuotas("Invalid empty entity type.")
        if types.count(entity_type) > 1:
            raise BadQuotas(f"Entity type {entity_type} cannot appear more than once in the filter.")
        if entity_type not in _TYPES:
            raise UnknownEntityType(f"Unsupported entity type {entity_type}")
        if match not in _MATCHES:
            raise BadQuotas(f"Unknown match type {match}")
        if match == Match.EXACT and name is None:
            raise BadQuotas("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if match != Match.EXACT and name is not None:
            raise BadQuotas(f"Request specified MATCH_TYPE_{Match(match).name}, but also specified a match string.")
    if IP in types and len(types) > 1:
        raise BadQuotas(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )


def _fits(entity: Entity, components: Sequence[Component], *, strict: bool) -> bool:
    parts = dict(entity.parts)
    if strict and len(parts) != len(components):
        return False
    return all(each.entity_type in parts and _matches(parts[each.entity_type], each) for each in components)


def _matches(name: str | None, component: Component) -> bool:
    match component.match:
        case Match.EXACT:
            return name == component.name
        case Match.DEFAULT:
            return name is None
        case _:
            return True


def alteration(
    parts: Sequence[tuple[str, str | None]], operations: Iterable[Operation], address_of: Callable[[str], str | None]
) -> EntityAlteration:
    """Return the alteration by an entry of the request. Raises BadQuotas.

    ``address_of``: the address of a host name in canonical text, None if it has none.
    """
    entity = _entity(parts, address_of)
    allowed = _IP_KEYS if entity.parts[0][0] == IP else _CLIENT_KEYS
    wanted: dict[str, str] = {}
    removed: set[str] = set()
    for key, value, remove in operations:
        if key in wanted or key in removed:
            raise BadQuotas(f"Duplicate quota key {key}")
        if remove:
            removed.add(key)
        elif key not in allowed:
            raise BadQuotas(f"Invalid configuration key {key}")
        else:
            wanted[key] = _text(key, value)
    return EntityAlteration(entity=entity, set=wanted, remove=frozenset(removed & allowed))


def _entity(parts: Sequence[tuple[str, str | None]], address_of: Callable[[str], str | None]) -> Entity:
    names: dict[str, str | None] = {}
    for entity_type, name in parts:
        if entity_type in names:
            raise BadQuotas(f"Invalid client quota entity, duplicate entity entry {entity_type}")
        if entity_type not in _TYPES:
            raise BadQuotas(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise BadQuotas(f"Empty {entity_type} not supported")
        names[entity_type] = name
    if not names:
        raise BadQuotas("Invalid empty client quota entity")
    if IP not in names:
        return Entity(tuple((kind, names[kind]) for kind in (USER, CLIENT_ID) if kind in names))
    if len(names) > 1:
        raise BadQuotas("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    host = names[IP]
    if host is None:
        return Entity.of_ip(None)
    address = address_of(host)
    if address is None:
        raise BadQuotas(f"{host} is not a valid IP or resolvable host.")
    return Entity.of_ip(address)


def _text(key: str, value: float) -> str:
    """Return the text in ZooKeeper: a whole number without a fraction."""
    if not value > 0:
        raise BadQuotas(f"Quota {key} must be greater than 0")
    if math.isinf(value):
        raise BadQuotas(f"Quota {key} must be finite")
    if key not in _WHOLE:
        return repr(value)
    whole = int(value)
    if whole > _MAX_LONG:
        raise BadQuotas(f"Proposed value for {key} is too large for a LONG.")
    if not whole or value - whole > _EPSILON:
        raise BadQuotas(f"{key} cannot be a fractional value.")
    return str(whole)
