"""Quotas from the configs of entities and groups, as text as in ZooKeeper. What is invalid there limits no client."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from muster.actors.config.groups import GROUP_BYTE_RATE
from muster.gateway.quotas.limits import ABSENT, DEFAULT, Limits, Part, QuotaKey, Who
from muster.placement.security.entities import CLIENT_ID, IP, USER, Entity

CONNECTION_CREATION_RATE = "connection_creation_rate"
"""The quota of an IP address, in connections per second (KIP-612)."""

Entities = Mapping[Entity, Mapping[str, str]]
_CLIENT_KEYS = {key.value: key for key in QuotaKey}


def limits_of(entities: Entities) -> Limits:
    """Return the quotas of users and client ids."""
    return Limits.of_rules(_rules(entities))


def _rules(entities: Entities) -> Iterator[tuple[Who, QuotaKey, float]]:
    for entity, configs in entities.items():
        parts = dict(entity.parts)
        if IP in parts:
            continue
        who = (_part(parts, USER), _part(parts, CLIENT_ID))
        for name, text in configs.items():
            key, quota = _CLIENT_KEYS.get(name), quota_of(text)
            if key is not None and quota is not None:
                yield who, key, quota


def _part(parts: Mapping[str, str | None], kind: str) -> str | Part:
    if kind not in parts:
        return ABSENT
    name = parts[kind]
    return DEFAULT if name is None else name


def ip_rates_of(entities: Entities) -> dict[str | None, float]:
    """Return connections per second by address; None: of every other one."""
    found: dict[str | None, float] = {}
    for entity, configs in entities.items():
        kind, name = entity.parts[0]
        quota = quota_of(configs.get(CONNECTION_CREATION_RATE, "")) if kind == IP else None
        if quota is not None:
            found[name] = quota
    return found


def group_rates_of(groups: Mapping[str, Mapping[str, str]]) -> dict[str, float]:
    """Bytes per second by group."""
    found = {group: quota_of(configs.get(GROUP_BYTE_RATE, "")) for group, configs in groups.items()}
    return {group: quota for group, quota in found.items() if quota is not None}


def quota_of(text: str) -> float | None:
    """Return the value of a quota; None if it is not a positive number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None
