"""Which users have SCRAM credentials, and how a request changes them (KIP-554). Pure; the messages are Kafka's.

What one user's elements of a request want is done as a whole or not at all, and independently of other users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.security.credentials import Entities, stored_credentials
from muster.gateway.security.scram import DEFAULT_ITERATIONS, SCRAM_MECHANISMS, ScramCredential
from muster.placement.security.entities import Entity, EntityAlteration

MECHANISM_CODES: Mapping[int, str] = dict(enumerate(SCRAM_MECHANISMS, 1))
"""Kafka's ``ScramMechanism``; any other number is unknown."""
MAX_ITERATIONS = 16_384
"""Limit of a credential that a request sets."""
NOT_THERE = "Attempt to delete a user credential that does not exist"


class Refusal(NamedTuple):
    """Why nothing is done for a user."""

    error: ErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class Deletion:
    """An element of AlterUserScramCredentials."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class Upsertion:
    """An element of AlterUserScramCredentials."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


def alteration_of(
    user: str, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion], config: Mapping[str, str]
) -> EntityAlteration | Refusal:
    """Return the alteration of one user, whose elements these are. ``config``: the user's current one in ZooKeeper."""
    elements: list[Deletion | Upsertion] = [*upsertions, *deletions]
    for element in elements:
        if (refusal := _refusal(element)) is not None:
            return refusal
    if max(Counter(element.mechanism for element in elements).values()) > 1:
        text = "A user credential cannot be altered twice in the same request"
        return Refusal(ErrorCode.duplicate_resource, text)
    removed = frozenset(MECHANISM_CODES[deletion.mechanism] for deletion in deletions)
    if not removed <= stored_credentials(config).keys():
        return Refusal(ErrorCode.resource_not_found, NOT_THERE)
    return EntityAlteration(
        entity=Entity.of_user(user), set=dict(_encoded(upsertion) for upsertion in upsertions), remove=removed
    )


def _refusal(element: Deletion | Upsertion) -> Refusal | None:
    if not element.user:
        return Refusal(ErrorCode.unacceptable_credential, "Username must not be empty")
    if element.mechanism not in MECHANISM_CODES:
        return Refusal(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    if isinstance(element, Upsertion):
        if element.iterations < DEFAULT_ITERATIONS:
            return Refusal(ErrorCode.unacceptable_credential, "Too few iterations")
        if element.iterations > MAX_ITERATIONS:
            return Refusal(ErrorCode.unacceptable_credential, "Too many iterations")
    return None


def _encoded(upsertion: Upsertion) -> tuple[str, str]:
    name = MECHANISM_CODES[upsertion.mechanism]
    credential = ScramCredential.of_salted(name, upsertion.salt, upsertion.salted_password, upsertion.iterations)
    return name, credential.encode()


class Described(NamedTuple):
    """One user, and what anyone may know of the credentials."""

    user: str
    refusal: Refusal | None
    iterations: tuple[tuple[int, int], ...] = ()
    """Pairs of a mechanism's code and its iterations."""


def describe(entities: Entities, users: Sequence[str] | None) -> list[Described]:
    """Each of the users once, in their order; without any, all that have credentials, sorted."""
    if not users:
        found = {entity.user: config for entity, config in entities.items() if entity.user is not None}
        every = (_described(user, config) for user, config in sorted(found.items()))
        return [described for described in every if described.refusal is None]
    times = Counter(users)
    return [
        _described(user, entities.get(Entity.of_user(user), {})) if count == 1 or not user else _repeated(user)
        for user, count in times.items()
    ]


def _repeated(user: str) -> Described:
    text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    return Described(user, Refusal(ErrorCode.duplicate_resource, text))


def _described(user: str, config: Mapping[str, str]) -> Described:
    stored = stored_credentials(config)
    found = []
    for code, name in MECHANISM_CODES.items():
        if name in stored:
            try:
                found.append((code, ScramCredential.decode(stored[name]).iterations))
            except ValueError:  # it cannot be used to log in either
                continue
    if not found:
        text = f"Attempt to describe a user credential that does not exist: {user}"
        return Described(user, Refusal(ErrorCode.resource_not_found, text))
    return Described(user, None, tuple(found))
