"""Which quota applies to a client, and with whom it shares it: Kafka's precedence (ClientQuotaManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple


class QuotaKey(StrEnum):
    """Kafka's names of quotas, as in AlterClientQuotas."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"


class Part(Enum):
    """Placeholder for a user or a client id that an entity does not name."""

    DEFAULT = "default"
    ABSENT = "absent"


DEFAULT, ABSENT = Part.DEFAULT, Part.ABSENT
Who = tuple[str | Part, str | Part]
"""User and client id of a quota's entity, or of those that share a measure."""


class Limit(NamedTuple):
    """The quota of a client."""

    quota: float
    shared_by: Who
    """All clients of that user and client id (each of those that are ABSENT) use one measure."""


@dataclass
class Limits:
    """All quotas of clients. Per key, the first rule that exists applies; quotas are never added up."""

    by_key: Mapping[QuotaKey, Mapping[Who, float]]

    @classmethod
    def of_rules(cls, rules: Iterable[tuple[Who, QuotaKey, float]] = ()) -> Limits:
        """Return the limits of these rules; of two with the same entity and key, the later one counts."""
        by_key: dict[QuotaKey, dict[Who, float]] = {}
        for who, key, quota in rules:
            by_key.setdefault(key, {})[who] = quota
        return cls(by_key)

    def __bool__(self) -> bool:
        return bool(self.by_key)

    def has(self, key: QuotaKey) -> bool:
        """Whether any client has such a quota."""
        return key in self.by_key

    def of(self, key: QuotaKey, user: str, client_id: str) -> Limit | None:
        """Return the limit of a client; None if it has none."""
        quotas = self.by_key.get(key)
        if not quotas:
            return None
        both, of_user, of_client = (user, client_id), (user, ABSENT), (ABSENT, client_id)
        rules: tuple[tuple[Who, Who], ...] = (
            (both, both),
            ((user, DEFAULT), both),
            (of_user, of_user),
            ((DEFAULT, client_id), both),
            ((DEFAULT, DEFAULT), both),
            ((DEFAULT, ABSENT), of_user),
            (of_client, of_client),
            ((ABSENT, DEFAULT), of_client),
        )
        for rule, shared_by in rules:
            if (quota := quotas.get(rule)) is not None:
                return Limit(quota, shared_by)
        return None
