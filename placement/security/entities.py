"""Entities: users, clients and IP addresses with their configs, as Kafka stores them in ZooKeeper.

The configs of a user are SCRAM credentials and quotas; those of a client, of a client of a user, and of an address are
quotas. Kafka's source: ``kafka.zk.ConfigEntityZNode``, ``org.apache.kafka.common.utils.Sanitizer``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote_to_bytes

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""Kafka's types of entities."""
USERS, CLIENTS, IPS = "/config/users", "/config/clients", "/config/ips"
_CLIENTS_OF_USER = "clients"
_DEFAULT = "<default>"
_DOTS = (".", "..")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class UnstorableName(ValueError):
    """ZooKeeper has no node of that name."""


class MalformedEntity(ValueError):
    """The name or the content of a node is not Kafka's. The message has none of the content, which may be keys."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A user, a client, a client of a user, or an address. A name of None is the default of all of that type."""

    parts: tuple[tuple[str, str | None], ...]
    """Type and name: one of USER, CLIENT_ID and IP, or USER and then CLIENT_ID."""

    def __post_init__(self) -> None:
        """Raise ValueError for any other parts."""
        types = tuple(kind for kind, _ in self.parts)
        if types not in ((USER,), (CLIENT_ID,), (IP,), (USER, CLIENT_ID)):
            raise ValueError(f"no entity has the parts {types}")

    @classmethod
    def of_user(cls, name: str | None) -> Entity:
        return cls(((USER, name),))

    @classmethod
    def of_client(cls, client_id: str | None) -> Entity:
        return cls(((CLIENT_ID, client_id),))

    @classmethod
    def of_user_client(cls, user: str | None, client_id: str | None) -> Entity:
        return cls(((USER, user), (CLIENT_ID, client_id)))

    @classmethod
    def of_ip(cls, address: str | None) -> Entity:
        return cls(((IP, address),))

    @property
    def user(self) -> str | None:
        """The name, of an entity that is a user without a client; None for any other, and for the default user."""
        return self.parts[0][1] if len(self.parts) == 1 and self.parts[0][0] == USER else None

    @property
    def path(self) -> str:
        """The node of its configs. Raises UnstorableName."""
        names = [encode_name(name) for _, name in self.parts]
        if len(names) == 2:
            return f"{USERS}/{names[0]}/{_CLIENTS_OF_USER}/{names[1]}"
        parent = {USER: USERS, CLIENT_ID: CLIENTS, IP: IPS}[self.parts[0][0]]
        return f"{parent}/{names[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityAlteration:
    """Configs of one entity to set and to remove; the others stay. Both may be repeated without effect."""

    entity: Entity
    set: Mapping[str, str] = field(default_factory=dict, repr=False)
    remove: frozenset[str] = frozenset()

    def after(self, current: Mapping[str, str]) -> dict[str, str]:
        """Return the configs after the alteration."""
        return {name: value for name, value in current.items() if name not in self.remove} | dict(self.set)


def encode_name(name: str | None) -> str:
    """Encode a name like Kafka's Sanitizer: percent-encoded UTF-8, but for unreserved characters.

    Raises UnstorableName.
    """
    if name is None:
        return _DEFAULT
    encoded = quote(name.encode("utf-8", "surrogatepass"), safe="")
    if not encoded or encoded in _DOTS:
        raise UnstorableName(f"{name!r} cannot be stored in ZooKeeper")
    return encoded


def decode_name(encoded: str) -> str | None:
    """Decode the name of a node. Raises MalformedEntity."""
    if encoded == _DEFAULT:
        return None
    if _BAD_ESCAPE.search(encoded):
        raise MalformedEntity(f"{encoded!r} is not the name of an entity")
    try:
        return unquote_to_bytes(encoded).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise MalformedEntity(f"{encoded!r} is not the name of an entity") from error


def clients_path(user_node: str) -> str:
    """Return the parent of the nodes of a user's clients. ``user_node``: the name of the user's node."""
    return f"{USERS}/{user_node}/{_CLIENTS_OF_USER}"


def decode_entity_config(data: bytes) -> dict[str, str]:
    """Return a node's configs; none if only clients of the user have any. Raises MalformedEntity."""
    if not data:
        return {}
    try:
        fields = json.loads(data)
        config = fields["config"]
        if fields["version"] != 1 or not isinstance(config, dict):
            raise MalformedEntity("it is not Kafka's JSON of an entity")
        return {str(name): str(value) for name, value in config.items()}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise MalformedEntity("it is not Kafka's JSON of an entity") from None
