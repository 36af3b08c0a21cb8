"""The requests that Kafka and Muster decide alike: each API, in the versions in which its behaviour differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from muster.actors.wire.kafka import codec
from tests.gateway.authorization.world import (
    ADMIN,
    ALICE,
    ANY_TOPIC_USERS,
    CLUSTER_USERS,
    GROUPS,
    IDS,
    MISSING,
    OP,
    PLAIN_USER,
    TOPICS,
    TYPE,
    UNKNOWN_ID,
    World,
    acl,
)
from tests.log.support import client_batch

Body = Callable[[World], dict[str, Any]]
BY_CLUSTER_RIGHT = (ADMIN, *CLUSTER_USERS, PLAIN_USER)


class Case(NamedTuple):
    """A request of a user in some versions of the API."""

    api_key: int
    versions: tuple[int, ...]
    what: str
    user: str
    body: Body
    before: Callable[[World], None] | None = None
    after: Callable[[World, Any], None] | None = None
    """Takes the response."""

    def name(self, version: int) -> str:
        """Return the name in the recording."""
        what = f", {self.what}" if self.what else ""
        return f"{codec.api_name(self.api_key)} v{version}{what}, {self.user}"


NAMED = [*TOPICS, *MISSING]


def _now_ms() -> int:
    """Older records would be deleted at once."""
    return int(time.time() * 1000)


def _ids(world: World) -> list[Any]:
    return [*(world.ids[name] for name in TOPICS), UNKNOWN_ID]


def _named(world: World, by_id: bool, **fields: Any) -> list[dict[str, Any]]:
    """All topics; ids and names are in the fields ``name``, ``topic`` and ``topic_id``."""
    if by_id:
        return [{"topic_id": topic_id, "name": None, **fields} for topic_id in _ids(world)]
    return [{"name": name, "topic": name, "topic_id": None, **fields} for name in NAMED]


def _produce(
    *, by_id: bool = False, batch: bytes | None = None, names: list[str] | None = None, **changes: Any
) -> Body:
    data = [{"index": 0, "records": batch or client_batch(first_ms=_now_ms())}]

    def body(world: World) -> dict[str, Any]:
        topics = _named(world, by_id, partition_data=data)
        if names is not None:
            topics = [topic for topic in topics if topic["name"] in names]
        return {"transactional_id": None, "acks": 1, "timeout": 10_000, "topic_data": topics} | changes

    return body


def _fetch(*, by_id: bool = False, **changes: Any) -> Body:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]

    def body(world: World) -> dict[str, Any]:
        return {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "forgotten_topics_data": [],
            "rack_id": "",
            "topics": _named(world, by_id, partitions=partitions),
        } | {name: value(world) if callable(value) else value for name, value in changes.items()}

    return body


def data() -> Iterator[Case]:
    transactional = client_batch(producer=(4_000, 0, 0), transactional=True)
    yield Case(0, (3, 9, 12), "", ALICE, _produce())
    yield Case(0, (13,), "by id", ALICE, _produce(by_id=True))
    yield Case(0, (9,), "", PLAIN_USER, _produce())
    for transactional_id in IDS:
        changes: dict[str, Any] = {"transactional_id": transactional_id}
        yield Case(0, (9,), f"transactional {transactional_id}", ALICE, _produce(batch=transactional, **changes))
        yield Case(0, (9,), f"of {transactional_id}, not transactional", ALICE, _produce(**changes))
    yield Case(0, (9,), "transactional without an id", ALICE, _produce(batch=transactional))
    yield Case(1, (4, 11, 12), "", ALICE, _fetch())
    yield Case(1, (13, 17), "by id", ALICE, _fetch(by_id=True))
    yield Case(1, (12,), "", PLAIN_USER, _fetch())
    yield Case(1, (13,), "by id", PLAIN_USER, _fetch(by_id=True))
    for user in (ALICE, *CLUSTER_USERS):
        yield Case(1, (12,), "as a follower", user, _fetch(replica_id=9))
    offsets = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1, "offset": 0}]
    epochs = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    yield Case(2, (1, 7, 10), "", ALICE, _topics(partitions=offsets, replica_id=-1, isolation_level=0, timeout=1000))
    yield Case(2, (7,), "", PLAIN_USER, _topics(partitions=offsets, replica_id=-1, isolation_level=0, timeout=1000))
    yield Case(21, (0, 2), "", ALICE, _topics(partitions=offsets, timeout=10_000))
    yield Case(23, (2, 4), "", ALICE, _topics(partitions=epochs, replica_id=-1))
    yield Case(61, (0,), "", ALICE, _topics(partition_indexes=[0]))
    marker = {"producer_id": 9, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0}
    markers = [{**marker, "transaction_version": 0, "topics": [{"name": "t-write", "partition_indexes": [0]}]}]
    for user in BY_CLUSTER_RIGHT:
        yield Case(27, (1,), "", user, _always(markers=markers))


def sessions() -> Iterator[Case]:
    """Yield cases of fetch sessions.

    A session is judged with each request: a right that is withdrawn counts from the next one on.
    """

    def remember(world: World, response: Any) -> None:
        world.memory["session"] = response.session_id

    def session_id(world: World) -> int:
        return int(world.memory["session"])

    def partition(world: World) -> list[dict[str, Any]]:
        names = ("t-read", "t-all", "t-nothing")
        item = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        return [{"topic_id": world.ids[name], "partitions": [item]} for name in names]

    def forgotten(world: World) -> list[dict[str, Any]]:
        return [{"topic_id": world.ids["t-nothing"], "partitions": [0]}]

    def withdraw(world: World) -> None:
        world.delete_acl(ALICE, "t-all")

    def restore(world: World) -> None:
        world.create_acls([acl(ALICE, OP.ALL, TYPE.TOPIC, "t-all")])

    def step(what: str, epoch: int, user: str = ALICE, **more: Any) -> Case:
        changes: dict[str, Any] = {"session_id": session_id, "session_epoch": epoch, "topics": []} | more
        hooks: Any = {name: changes.pop(name) for name in ("before", "after") if name in changes}
        return Case(1, (13,), f"session, {what}", user, _fetch(**changes), **hooks)

    yield step("begun", 0, session_id=0, topics=partition, after=remember)
    yield step("continued", 1)
    yield step("continued by another", 2, user=PLAIN_USER)
    yield step("continued by the first", 3)
    yield step("a right is withdrawn", 4, before=withdraw)
    yield step("a topic is forgotten", 5, forgotten_topics_data=forgotten)
    yield step("the right is restored", 6, before=restore)


def _always(**fields: Any) -> Body:
    return lambda _: fields


def _topics(*, by_id: bool = False, of: str = "topics", **fields: Any) -> Body:
    """Return a request about all topics; arrays go to each topic, the rest to the request."""
    of_topic = {name: value for name, value in fields.items() if isinstance(value, list)}
    others = {name: value for name, value in fields.items() if name not in of_topic}
    return lambda world: {of: _named(world, by_id, **of_topic), **others}


def metadata() -> Iterator[Case]:
    plain: dict[str, Any] = {"allow_auto_topic_creation": False, "include_cluster_authorized_operations": False}
    plain |= {"include_topic_authorized_operations": False}
    operations = {**plain, "include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    yield Case(3, (4, 9, 12), "named", ALICE, _topics(**plain))
    yield Case(3, (8, 12), "named, operations", ALICE, _topics(**operations))
    yield Case(3, (12,), "by id", ALICE, _topics(by_id=True, **plain))
    yield Case(3, (9,), "named", PLAIN_USER, _topics(**plain))
    yield Case(3, (12,), "by id", PLAIN_USER, _topics(by_id=True, **plain))
    for user in (ALICE, PLAIN_USER):
        yield Case(3, (1, 9, 12), "all", user, _always(topics=None, **plain))
        yield Case(3, (0,), "all", user, _always(topics=[]))
        yield Case(75, (0,), "all", user, _always(topics=[], response_partition_limit=100, cursor=None))
    yield Case(75, (0,), "named", ALICE, _topics(response_partition_limit=100, cursor=None))
    for user in BY_CLUSTER_RIGHT:
        yield Case(3, (8,), "of the cluster", user, _always(**{**operations, "topics": []}))
        cluster = {"include_cluster_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": False}
        yield Case(60, (0, 1), "", user, _always(**cluster))


def auto_create() -> Iterator[Case]:
    named = [{"name": name, "topic_id": None} for name in MISSING]
    create = {"topics": named, "allow_auto_topic_creation": True}
    operations = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
    yield Case(3, (9,), "auto-create", ALICE, _always(**create, **operations))
    yield Case(3, (9,), "auto-create", "c-create", _always(**create, **operations))


def _member(group: str) -> dict[str, Any]:
    return {"group_id": group, "generation_id": 1, "member_id": "m", "group_instance_id": None}


def groups() -> Iterator[Case]:
    for group in GROUPS:
        join = {
            **_member(group),
            "member_id": "",
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
            "reason": None,
        }
        sync = {**_member(group), "protocol_type": "consumer", "protocol_name": "range", "assignments": []}
        leave = {**_member(group), "members": [{"member_id": "m", "group_instance_id": None, "reason": None}]}
        for api_key, versions, body in (
            (11, (4, 9), join),
            (12, (0, 4), _member(group)),
            (13, (0, 5), leave),
            (14, (0, 5), sync),
        ):
            yield Case(api_key, versions, group, ALICE, _always(**body))
        consumer = {
            "group_id": group,
            "member_id": "m",
            "member_epoch": 5,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": 10_000,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [],
        }
        for names in (None, ["t-describe"], ["t-describe", "t-nothing"], ["t-describe", "missing-nothing"]):
            what = f"{group} {names and ' '.join(names)}"
            yield Case(68, (0, 1), what, ALICE, _always(**consumer, subscribed_topic_names=names))
        yield Case(47, (0,), group, ALICE, _in_group(group, partitions=[{"partition_index": 0}]))
    for include in (False, True):
        names = [*GROUPS, "missing"]
        described = _always(groups=names, group_ids=names, include_authorized_operations=include)
        what = "operations" if include else ""
        yield Case(15, (0, 3, 5, 6), what, ALICE, described)
        yield Case(69, (0, 1), what, ALICE, described)
    for user in (ALICE, *BY_CLUSTER_RIGHT):
        yield Case(16, (0, 4), "", user, _always(states_filter=[], types_filter=[]))


def _in_group(group: str, *, by_id: bool = False, **fields: Any) -> Body:
    return _topics(by_id=by_id, group_id=group, **fields)


def offsets() -> Iterator[Case]:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    simple: dict[str, Any] = {
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time": -1,
    }
    for group in GROUPS:
        yield Case(8, (2, 8, 9), group, ALICE, _in_group(group, partitions=partitions, **simple))
        yield Case(8, (10,), f"{group}, by id", ALICE, _in_group(group, by_id=True, partitions=partitions, **simple))
        yield Case(9, (1, 2, 7), group, ALICE, _in_group(group, partition_indexes=[0], require_stable=False))
        yield Case(9, (2, 7), f"{group}, all topics", ALICE, _always(group_id=group, topics=None, require_stable=False))
    every: dict[str, Any] = {"member_id": None, "member_epoch": -1}
    yield Case(9, (8, 9), "", ALICE, _of_groups(**every))
    yield Case(9, (10,), "by id", ALICE, _of_groups(by_id=True, **every))
    for version in (8, 10):
        all_topics = [{"group_id": group, "topics": None, **every} for group in GROUPS]
        yield Case(9, (version,), "all topics", ALICE, _always(groups=all_topics, require_stable=False))
        yield Case(9, (version,), "all topics", PLAIN_USER, _always(groups=all_topics, require_stable=False))
    one = [{"group_id": "g-read", "topics": [{"name": "t-read", "partition_indexes": [0]}], **every}]
    yield Case(9, (8,), "one group", ALICE, _always(groups=one, require_stable=False))
    yield Case(9, (8,), "one group", PLAIN_USER, _always(groups=one, require_stable=False))


def _of_groups(*, by_id: bool = False, **fields: Any) -> Body:
    def body(world: World) -> dict[str, Any]:
        topics = _named(world, by_id, partition_indexes=[0])
        return {
            "groups": [{"group_id": group, "topics": topics, **fields} for group in GROUPS],
            "require_stable": False,
        }

    return body


def coordinators() -> Iterator[Case]:
    for key_type, keys in ((0, GROUPS), (1, IDS)):
        for key in keys:
            yield Case(10, (1, 3), f"type {key_type} {key}", ALICE, _always(key=key, key_type=key_type))
        yield Case(10, (4, 6), f"type {key_type}", ALICE, _always(coordinator_keys=keys, key_type=key_type))


def transactions() -> Iterator[Case]:
    producer = {"producer_id": 4_000, "producer_epoch": 0}

    def remember(world: World, response: Any) -> None:
        world.memory["producer"] = (response.producer_id, response.producer_epoch)

    def begin(world: World) -> None:
        """Begin a transaction of topics of which ``alice`` may see one."""
        producer_id, epoch = world.memory["producer"]
        topics = [{"name": name, "partitions": [0]} for name in ("t-write", "t-nothing")]
        body = {
            "v3_and_below_transactional_id": "x-write",
            "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": topics,
        }
        response = world.client(ADMIN).exchange(24, 3, body)
        assert set(world.outcome(response).values()) == {"NONE"}, world.outcome(response)

    for transactional_id in IDS:
        init = {"transactional_id": transactional_id, "transaction_timeout": 60_000}
        init |= {"producer_id": -1, "producer_epoch": -1, "enable2_pc": False, "keep_prepared_txn": False}
        after = remember if transactional_id == "x-write" else None
        yield Case(22, (0, 5), transactional_id, ALICE, _always(**init), after=after)
        of_producer = {"transactional_id": transactional_id, **producer}
        yield Case(26, (0, 5), transactional_id, ALICE, _always(**of_producer, committed=True))
        for group in ("g-read", "g-describe"):
            yield Case(25, (0, 4), f"{transactional_id} {group}", ALICE, _always(**of_producer, group_id=group))
            partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
            commit: dict[str, Any] = {"generation_id": -1, "member_id": "", "group_instance_id": None, **of_producer}
            what = f"{transactional_id} {group}"
            yield Case(28, (0, 3, 5), what, ALICE, _in_group(group, partitions=partitions, **commit))
        for names in (["t-write"], ["t-write", "t-read"], ["t-write", "missing-describe", "__consumer_offsets"]):
            topics = [{"name": name, "partitions": [0]} for name in names]
            added = {
                "v3_and_below_transactional_id": transactional_id,
                "v3_and_below_producer_id": 4_000,
                "v3_and_below_producer_epoch": 0,
                "v3_and_below_topics": topics,
            }
            yield Case(24, (0, 3), f"{transactional_id} {' '.join(names)}", ALICE, _always(**added))
    topics = [{"name": name, "partitions": [0]} for name in ("t-write", "t-nothing")]
    of_brokers = [{"transactional_id": "x-write", **producer, "verify_only": True, "topics": topics}]
    for user in (ALICE, *BY_CLUSTER_RIGHT):
        yield Case(24, (4, 5), "", user, _always(transactions=of_brokers))
    for user in (*BY_CLUSTER_RIGHT, *ANY_TOPIC_USERS):
        init = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        yield Case(22, (4,), "idempotent", user, _always(**init, enable2_pc=False, keep_prepared_txn=False))
    for user in (ALICE, PLAIN_USER, ADMIN):
        described = ["x-write", "x-nothing", "missing"]
        yield Case(65, (0,), "", user, _always(transactional_ids=described), before=begin if user == ALICE else None)
        filters = {
            "state_filters": [],
            "producer_id_filters": [],
            "duration_filter": -1,
            "transactional_id_pattern": None,
        }
        yield Case(66, (0, 1), "", user, _always(**filters))


TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP_TYPE = 2, 4, 8, 16, 32


def _resources(*kinds: int) -> list[tuple[int, str]]:
    named = {TOPIC: NAMED, GROUP_TYPE: GROUPS, BROKER: [""], CLIENT_METRICS: ["metrics"]}
    return [(kind, name) for kind in kinds for name in named[kind]]


def configs() -> Iterator[Case]:
    every = _resources(TOPIC, GROUP_TYPE, BROKER, CLIENT_METRICS)
    described = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in every]
    describe = {"resources": described, "include_synonyms": False, "include_documentation": False}
    yield Case(32, (1, 4), "", ALICE, _always(**describe))
    yield Case(32, (4,), "", "c-describe_configs", _always(**describe))
    yield Case(32, (4,), "", "c-alter_configs", _always(**describe))
    for api_key, versions in ((33, (0, 2)), (44, (0, 1))):
        for user in (ALICE, PLAIN_USER, "c-alter_configs"):
            # to unset all configs of brokers is an error in Kafka
            kinds = every if api_key == 44 else _resources(TOPIC, GROUP_TYPE, CLIENT_METRICS)
            altered = [{"resource_type": kind, "resource_name": name, "configs": []} for kind, name in kinds]
            if api_key == 44:  # to a repeated resource in the other API, Kafka 4.3.1 does not respond
                altered.append({"resource_type": TOPIC, "resource_name": "t-nothing", "configs": []})
            yield Case(api_key, versions, "", user, _always(resources=altered, validate_only=True))
    for user in BY_CLUSTER_RIGHT:
        yield Case(74, (0, 1), "", user, _always(resource_types=[CLIENT_METRICS]))


def topics() -> Iterator[Case]:
    def new(*names: str) -> list[dict[str, Any]]:
        fields = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        return [{"name": name, **fields} for name in names]

    for number, version in enumerate((2, 5, 7)):
        names = [f"new-create-{number}", f"new-create-configs-{number}", f"new-nothing-{number}", "twice", "twice"]
        create = {"topics": new(*names, "t-nothing", "t-create", "bad name"), "timeout": 20_000}
        yield Case(19, (version,), "", ALICE, _always(**create, validate_only=False))
        yield Case(19, (version,), "validated only", ALICE, _always(**create, validate_only=True))
    for user in BY_CLUSTER_RIGHT:
        only = {"topics": new("new-by-cluster"), "timeout": 20_000, "validate_only": True}
        yield Case(19, (7,), "of the cluster", user, _always(**only))
    grown = [{"name": name, "count": 2, "assignments": None} for name in [*NAMED, "t-nothing"]]
    yield Case(37, (0, 3), "", ALICE, _always(topics=grown, timeout=20_000, validate_only=True))


def deletions() -> Iterator[Case]:
    """They come last."""
    kept = [name for name in NAMED if name not in ("t-delete", "t-all", "t-all-but-describe")]
    yield Case(20, (1, 5), "", ALICE, _always(topic_names=kept, timeout=20_000))
    by_name = [{"name": name, "topic_id": None} for name in [*kept, "t-read", "twice", "twice"]]
    yield Case(20, (6,), "by name", ALICE, _always(topics=by_name, timeout=20_000))
    yield Case(20, (6,), "by id", PLAIN_USER, lambda world: {"topics": _by_ids(world), "timeout": 20_000})
    yield Case(20, (6,), "by id", ALICE, lambda world: {"topics": _by_ids(world), "timeout": 20_000})
    yield Case(42, (0, 2), "", ALICE, _always(groups_names=[*GROUPS, "missing"]))


def _by_ids(world: World) -> list[dict[str, Any]]:
    return [{"name": None, "topic_id": topic_id} for topic_id in _ids(world)]


def cluster() -> Iterator[Case]:
    partition = [{"topic": "t-nothing", "name": "t-nothing", "partitions": [0]}]
    reassigned = [{"name": "t-nothing", "partitions": [{"partition_index": 0, "replicas": None}]}]
    listed = [{"name": "t-nothing", "partition_indexes": [0]}]
    anything = {"resource_type_filter": 2, "resource_name_filter": "none", "pattern_type_filter": 3}
    anything |= {"principal_filter": "User:x", "host_filter": None, "operation": 3, "permission_type": 3}
    created = acl("x", OP.READ, TYPE.TOPIC, "none")
    quota = {"entity": [{"entity_type": "client-id", "entity_name": "x"}], "ops": []}
    upserted = {"name": "x", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
    quorum = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    feature = {"feature": "group.version", "max_version_level": 1, "allow_downgrade": False, "upgrade_type": 1}
    for user in BY_CLUSTER_RIGHT:
        yield Case(29, (1, 3), "", user, _always(**anything))
        yield Case(30, (1, 3), "", user, _always(creations=[created, created]))
        yield Case(31, (1, 3), "", user, _always(filters=[anything, anything]))
        yield Case(34, (1, 2), "", user, _always(dirs=[{"path": "/none", "topics": partition}]))
        yield Case(35, (1, 2, 3, 4), "", user, _always(topics=partition))
        yield Case(43, (0, 1, 2), "", user, _always(election_type=0, topic_partitions=partition, timeout=1000))
        yield Case(43, (1,), "all", user, _always(election_type=0, topic_partitions=None, timeout=1000))
        yield Case(45, (0, 1), "", user, _always(topics=reassigned, timeout=1000, allow_replication_factor_change=True))
        yield Case(46, (0,), "", user, _always(topics=listed, timeout=1000))
        yield Case(48, (0, 1), "", user, _always(components=[], strict=False))
        yield Case(49, (0, 1), "", user, _always(entries=[quota], validate_only=True))
        yield Case(55, (0, 2), "", user, _always(topics=quorum))
        yield Case(57, (0, 2), "", user, _always(feature_updates=[feature], timeout=1000, validate_only=True))
        yield Case(64, (0,), "", user, _always(broker_id=99))
        yield Case(50, (0,), "", user, _always(users=[{"name": "x"}]))
        yield Case(51, (0,), "", user, _always(deletions=[{"name": "x", "mechanism": 1}], upsertions=[]))
        yield Case(51, (0,), "upsert", user, _always(deletions=[], upsertions=[{**upserted, "iterations": 1}]))


def cases() -> list[Case]:
    """All, in the order in which they are played."""
    parts = (data, metadata, groups, offsets, coordinators, transactions, configs, topics, cluster)
    return [case for part in (*parts, sessions, auto_create, deletions) for case in part()]


def play(world: World, case: Case, version: int) -> dict[str, Any]:
    """Play a case; return the server's response."""
    if case.before is not None:
        case.before(world)
    try:
        response = world.client(case.user).exchange(case.api_key, version, case.body(world))
    except OSError as error:
        error.add_note(case.name(version))
        raise
    if case.after is not None:
        case.after(world, response)
    return world.outcome(response)
