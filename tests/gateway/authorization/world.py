"""Users, ACLs, topics and groups with which Kafka and Muster decide the same requests, and what their responses say.

For each right on topics there is one topic on which ``alice`` has that right and no other, and so for groups and
transactional ids; for each right on the cluster there is one user who has only that. So one request about all topics
shows which right an API needs, and one request by each user shows the same for the cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Self
from uuid import UUID

from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.placement.security.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from tests.gateway.serving import Client
from tests.zookeeper_fixture import eventually

ADMIN, ALICE, PLAIN_USER = "admin", "alice", "none"
PASSWORD = "secret"
OP, TYPE = AclOperation, AclResourceType

TOPIC_RIGHTS = (
    *(OP.READ, OP.WRITE, OP.CREATE, OP.DELETE, OP.ALTER),
    *(OP.DESCRIBE, OP.DESCRIBE_CONFIGS, OP.ALTER_CONFIGS, OP.ALL),
)
GROUP_RIGHTS = (OP.READ, OP.DELETE, OP.DESCRIBE, OP.DESCRIBE_CONFIGS, OP.ALTER_CONFIGS, OP.ALL)
ID_RIGHTS = (OP.WRITE, OP.DESCRIBE, OP.ALL)
CLUSTER_RIGHTS = (
    *(OP.CREATE, OP.ALTER, OP.DESCRIBE, OP.CLUSTER_ACTION),
    *(OP.DESCRIBE_CONFIGS, OP.ALTER_CONFIGS, OP.IDEMPOTENT_WRITE),
)


def _names(prefix: str, rights: tuple[AclOperation, ...]) -> list[str]:
    return [f"{prefix}-{right.name.lower()}" for right in rights]


TOPICS = [*_names("t", TOPIC_RIGHTS), "t-all-but-describe", "t-read-denied", "t-nothing"]
MISSING = ["missing-describe", "missing-create", "missing-nothing"]
GROUPS = [*_names("g", GROUP_RIGHTS), "g-nothing"]
IDS = [*_names("x", ID_RIGHTS), "x-nothing"]
CLUSTER_USERS = _names("c", CLUSTER_RIGHTS)
ANY_TOPIC_USERS = ["any-write", "any-write-but-all", "any-write-but-prefix", "any-write-but-longer-prefix"]
USERS = [ADMIN, ALICE, PLAIN_USER, *CLUSTER_USERS, *ANY_TOPIC_USERS]
UNKNOWN_ID = UUID("00000000-0000-4000-8000-00000000dead")

_CREATE_TOPICS, _METADATA, _CREATE_ACLS, _DELETE_ACLS, _DESCRIBE_ACLS, _OFFSET_COMMIT = 19, 3, 30, 31, 29, 8
_FIND_COORDINATOR, _INIT_PRODUCER_ID = 10, 22
_HANDSHAKE, _AUTHENTICATE = 17, 36


def acl(
    user: str,
    operation: AclOperation,
    resource: AclResourceType,
    name: str,
    *,
    deny: bool = False,
    prefix: bool = False,
) -> dict[str, Any]:
    """Return a creation of CreateAcls."""
    return {
        "resource_type": int(resource),
        "resource_name": name,
        "resource_pattern_type": int(AclPatternType.PREFIXED if prefix else AclPatternType.LITERAL),
        "principal": f"User:{user}",
        "host": "*",
        "operation": int(operation),
        "permission_type": int(AclPermission.DENY if deny else AclPermission.ALLOW),
    }


def acls() -> Iterator[dict[str, Any]]:
    """Yield the ACLs of all users."""
    kinds = ((TYPE.TOPIC, "t", TOPIC_RIGHTS), (TYPE.GROUP, "g", GROUP_RIGHTS), (TYPE.TRANSACTIONAL_ID, "x", ID_RIGHTS))
    for resource, prefix, rights in kinds:
        for right, name in zip(rights, _names(prefix, rights), strict=True):
            yield acl(ALICE, right, resource, name)
    for right, user in zip(CLUSTER_RIGHTS, CLUSTER_USERS, strict=True):
        yield acl(user, right, TYPE.CLUSTER, CLUSTER_NAME)
    yield acl(ALICE, OP.ALL, TYPE.TOPIC, "t-all-but-describe")
    yield acl(ALICE, OP.DESCRIBE, TYPE.TOPIC, "t-all-but-describe", deny=True)
    yield acl(ALICE, OP.READ, TYPE.TOPIC, "t-read-denied")
    yield acl(ALICE, OP.READ, TYPE.TOPIC, "t-read-d", deny=True, prefix=True)
    yield acl(ALICE, OP.DESCRIBE, TYPE.TOPIC, "missing-describe")
    for right in (OP.DESCRIBE, OP.CREATE):
        yield acl(ALICE, right, TYPE.TOPIC, "missing-create")
    yield acl("c-create", OP.DESCRIBE, TYPE.TOPIC, "missing-describe")
    yield acl(ALICE, OP.CREATE, TYPE.TOPIC, "new-create", prefix=True)
    yield acl(ALICE, OP.DESCRIBE_CONFIGS, TYPE.TOPIC, "new-create-configs", prefix=True)
    yield acl("any-write", OP.WRITE, TYPE.TOPIC, "w", prefix=True)
    yield acl("any-write-but-all", OP.WRITE, TYPE.TOPIC, "w")
    yield acl("any-write-but-all", OP.WRITE, TYPE.TOPIC, "*", deny=True)
    yield acl("any-write-but-prefix", OP.WRITE, TYPE.TOPIC, "ab", prefix=True)
    yield acl("any-write-but-prefix", OP.WRITE, TYPE.TOPIC, "a", deny=True, prefix=True)
    yield acl("any-write-but-longer-prefix", OP.WRITE, TYPE.TOPIC, "a", prefix=True)
    yield acl("any-write-but-longer-prefix", OP.WRITE, TYPE.TOPIC, "ab", deny=True, prefix=True)


class World:
    """A server with an authorizer, where ``admin`` is the super user; each user has a connection."""

    def __init__(self, bootstrap_server: str) -> None:
        host, _, port = bootstrap_server.rpartition(":")
        self._address = (host, int(port))
        self._clients: dict[str, Client] = {}
        self._open = ExitStack()
        self.ids: dict[str, UUID] = {}
        """Ids of topics, by name."""
        self.memory: dict[str, Any] = {}
        """Values that one case leaves to a later one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def client(self, user: str) -> Client:
        """Return the user's connection, which is opened if there is none."""
        if user not in self._clients:
            self._clients[user] = self.connect(user)
        return self._clients[user]

    def connect(self, user: str) -> Client:
        """Another connection of that user."""
        client = self._open.enter_context(Client(self._address[1], "a client", host=self._address[0]))
        client.exchange(_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        token = f"\0{user}\0{PASSWORD}".encode()
        assert client.exchange(_AUTHENTICATE, 2, {"auth_bytes": token}).error_code is ErrorCode.none
        return client

    def prepare(self) -> None:
        """Create everything that cases are about."""
        self.create_topics(TOPICS)
        self.create_acls([*acls()])
        admin = self.client(ADMIN)
        for key_type, keys in ((0, GROUPS), (1, IDS)):
            eventually(partial(self._found, key_type, keys), f"coordinators of {keys}")
        eventually(self._has_producer_ids, "producer ids")
        for group in GROUPS:
            eventually(partial(self._commit, admin, group), f"offsets of {group}")

    def create_topics(self, names: list[str]) -> None:
        topics = [
            {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            for name in names
        ]
        created = self.client(ADMIN).exchange(
            _CREATE_TOPICS, 7, {"topics": topics, "timeout": 20_000, "validate_only": False}
        )
        assert {topic.error_code for topic in created.topics} == {ErrorCode.none}
        self.ids |= {topic.name: topic.topic_id for topic in created.topics}
        eventually(lambda: self._all_led(names), "leaders")

    def _all_led(self, names: list[str]) -> bool:
        body: dict[str, Any] = {
            "topics": [{"name": name, "topic_id": None} for name in names],
            "allow_auto_topic_creation": False,
        }
        body["include_topic_authorized_operations"] = False
        found = self.client(ADMIN).exchange(_METADATA, 12, body).topics
        return all(each.error_code is each.partitions[0].error_code is ErrorCode.none for each in found)

    def create_acls(self, creations: list[dict[str, Any]]) -> None:
        before = self._count_acls()
        created = self.client(ADMIN).exchange(_CREATE_ACLS, 3, {"creations": creations})
        assert {each.error_code for each in created.results} == {ErrorCode.none}
        eventually(lambda: self._count_acls() == before + len(creations), "ACLs")

    def delete_acl(self, user: str, name: str) -> None:
        """All ACLs of that user for the resource of that name."""
        wanted = {**_ANYTHING, "resource_name_filter": name, "principal_filter": f"User:{user}"}
        before = self._count_acls()
        (deleted,) = self.client(ADMIN).exchange(_DELETE_ACLS, 3, {"filters": [wanted]}).filter_results
        eventually(lambda: self._count_acls() == before - len(deleted.matching_acls), "fewer ACLs")

    def _count_acls(self) -> int:
        resources = self.client(ADMIN).exchange(_DESCRIBE_ACLS, 3, _ANYTHING).resources
        return sum(len(resource.acls) for resource in resources)

    def _found(self, key_type: int, keys: list[str]) -> bool:
        """Find coordinators: the internal topics exist then. Return whether all were found."""
        body = {"coordinator_keys": keys, "key_type": key_type}
        found = self.client(ADMIN).exchange(_FIND_COORDINATOR, 4, body).coordinators
        return all(each.error_code is ErrorCode.none for each in found)

    def _has_producer_ids(self) -> bool:
        init = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        error: ErrorCode = self.client(ADMIN).exchange(_INIT_PRODUCER_ID, 4, init).error_code
        return error is ErrorCode.none

    def _commit(self, admin: Client, group: str) -> bool:
        topics = [
            {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}
            for name in TOPICS
        ]
        body = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": topics,
        }
        found = admin.exchange(_OFFSET_COMMIT, 9, body)
        return all(each.error_code is ErrorCode.none for topic in found.topics for each in topic.partitions)

    def outcome(self, response: Any) -> dict[str, Any]:
        """Return a response's statements about authorization.

        These are every error, by where it is; authorized operations; messages of refusals.
        """
        return dict(_outcomes(response, "", {topic_id: f"#{name}" for name, topic_id in self.ids.items()}))


_ANYTHING = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_JAVAS = "Request Request("
"""So begins a message of Kafka that names objects of its own."""
_LABELS = (
    *("name", "topic", "topic_name", "group_id", "key", "transactional_id", "resource_name", "topic_id"),
    *("partition", "partition_index", "partition_id", "index", "user", "producer_id"),
)
_NAMES = frozenset(("name", "topic", "topic_name"))
REFUSALS = frozenset(
    (
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    )
)
_SKIPPED = frozenset(("brokers", "assignment", "configs", "api_keys", "error_records", "partition_data"))


def _outcomes(entity: Any, at: str, ids: dict[UUID, str]) -> Iterator[tuple[str, Any]]:
    fields = {each.name: getattr(entity, each.name) for each in dataclasses.fields(entity)}
    error = fields.get("error_code", fields.get("partition_error_code"))
    if error is not None:
        yield at or "/", error.name.upper()
        message = fields.get("error_message")
        if error in REFUSALS and message is not None and not message.startswith(_JAVAS):
            yield f"{at} message", message
    for name, value in fields.items():
        if name == "topic_config_error_code" and value:
            yield f"{at} {name}", ErrorCode(value).name.upper()
        elif name.endswith("authorized_operations") and value != -(2**31):
            yield f"{at} {name}", value
        elif name not in _SKIPPED and isinstance(value, tuple):
            for each in value:
                if dataclasses.is_dataclass(each):
                    yield from _element(each, f"{at}/", ids)


def _element(entity: Any, at: str, ids: dict[UUID, str]) -> Iterator[tuple[str, Any]]:
    label = _label(entity, ids)
    found = [*_outcomes(entity, at + label, ids)]
    yield from found or [(at + label, "LISTED")]


def _label(entity: Any, ids: dict[UUID, str]) -> str:
    """Its name, or ``#name`` if it has only an id; ``null`` where it has neither."""
    for name in _LABELS:
        value = field(entity, name, None)
        if value is None or (value == "" and name in _NAMES):
            continue
        if isinstance(value, UUID):
            return ids.get(value, "#unknown")
        return str(value)
    return "null"
