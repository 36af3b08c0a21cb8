"""Cases of clients with quotas; Muster and Kafka respond alike, and ``kafka_quotas.json`` has Kafka's outcomes.

Only what does not depend on the moment is compared: tests/conformance/quotas compares times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.quotas.world import (
    API_VERSIONS,
    CREATE_TOPICS,
    DESCRIBE,
    TOPIC,
    USERS,
    Entry,
    Parts,
    World,
    batch,
    produce_body,
    size_of,
    throttle_ms,
)
from tests.gateway.serving import Client

FILE = Path(__file__).with_name("kafka_quotas.json")
Case = tuple[str, Any]
"""Step, and its outcome."""

FETCH, DELETE_TOPICS, CREATE_PARTITIONS = 1, 20, 37
MUTED_S = 0.1
NAMED, DEFAULT = "named", "default"
RULES: tuple[dict[str, str], ...] = (
    {"user": NAMED, "client-id": NAMED},
    {"user": NAMED, "client-id": DEFAULT},
    {"user": NAMED},
    {"user": DEFAULT, "client-id": NAMED},
    {"client-id": NAMED},
    {"user": DEFAULT, "client-id": DEFAULT},
    {"user": DEFAULT},
    {"client-id": DEFAULT},
)
"""Entities of a client. The last ones are of every client."""
OF_ALL = 3


def _text(rule: dict[str, str]) -> str:
    return ", ".join(kind if name is NAMED else f"any {kind}" for kind, name in rule.items())


def _parts(rule: dict[str, str], user: str, client_id: str) -> Parts:
    named = {"user": user, "client-id": client_id}
    return [(kind, named[kind] if name is NAMED else None) for kind, name in rule.items()]


def _chosen(bits: int, count: int, first: int = 0) -> list[int]:
    return [first + number for number in range(count) if bits >> number & 1]


def precedence(world: World) -> Iterator[Case]:
    """Every combination of quotas: each is another rate, so the throttle time says which one applies."""
    records = batch(30)
    rates = [size_of(records) // 10 // (2 + number) for number in range(len(RULES))]
    own = len(RULES) - OF_ALL
    for of_all in range(1 << OF_ALL):
        there = _chosen(of_all, OF_ALL, own)
        clients = [(user, f"of {user:>4}") for user in USERS[of_all << own : (of_all + 1) << own]]
        entries: list[Entry] = [
            (_parts(RULES[rule], *client), {"producer_byte_rate": rates[rule]})
            for bits, client in enumerate(clients)
            for rule in _chosen(bits, own)
        ]
        for rule in range(own, len(RULES)):
            rate = rates[rule] if rule in there else None
            entries.append((_parts(RULES[rule], "", ""), {"producer_byte_rate": rate}))
        world.limit(*entries)
        for bits, (user, client_id) in enumerate(clients):
            quotas = [_text(RULES[rule]) for rule in (*_chosen(bits, own), *there)]
            with world.client(user, client_id) as client:
                yield " + ".join(quotas) or "none", throttle_ms(world.produce(client, records))


def sharing(world: World) -> Iterator[Case]:
    """One client uses what is free; is the quota exceeded by another client id, and by another user?"""
    records = batch(30)
    rate = size_of(records) // 9
    for number, rule in enumerate(RULES):
        user, other = USERS[260 + 2 * number :][:2]
        client_id, other_id = f"sharing-{number}", f"sharing-{number}-other"
        entities = sorted({tuple(_parts(rule, u, c)) for u in (user, other) for c in (client_id, other_id)}, key=str)
        world.limit(*[(parts, {"producer_byte_rate": rate}) for parts in entities])
        outcome = []
        for each in ((user, client_id), (user, other_id), (other, client_id)):
            with world.client(*each) as client:
                outcome.append((throttle_ms(world.produce(client, records)) or 0) > 0)
        yield _text(rule), outcome
        world.limit(*[(parts, {"producer_byte_rate": None}) for parts in entities])


def is_muted(client: Client) -> bool:
    """Whether the next request gets no response for a moment."""
    client.request(API_VERSIONS, 0, {})
    if client.has_nothing_for(MUTED_S):
        return True
    client.response(API_VERSIONS, 0)
    return False


def data(world: World) -> Iterator[Case]:
    """Produce and Fetch of a client that exceeds its quota, or has another one for the other."""
    records = batch(30)
    user, size = USERS[280], size_of(records)
    parts: Parts = [("user", user)]
    world.limit((parts, {"producer_byte_rate": size // 30}))
    with world.client(user) as client:
        response = world.produce(client, records)
        (result,) = response.responses[0].partition_responses
        yield "Produce", (result.error_code.name, throttle_ms(response), is_muted(client))
    with world.client(user) as client:
        fetched = _fetched(_fetch(client, result.base_offset))
        yield "Fetch with a quota for Produce", (fetched[0], fetched[1] > 0, fetched[2])
    other = USERS[281]
    world.limit(([("user", other)], {"producer_byte_rate": size // 30}))
    with world.client(other) as client:
        client.request(0, 9, produce_body(records, acks=0))
        client.unanswered()
        yield "Produce without a response", any(is_muted(client) for _ in range(100))  # once it is appended
    world.limit(([("user", other)], {"producer_byte_rate": None, "consumer_byte_rate": 2 * len(records) // 10}))
    for what in ("first", "second"):
        with world.client(other) as client:
            error, found, throttle = _fetched(_fetch(client, result.base_offset, len(records)))
            yield f"the {what} Fetch of its quota", (error, found > 0, (throttle or 0) > 0)
    world.limit(([("user", other)], {"consumer_byte_rate": 1e9}))
    with world.client(other) as client:
        error, found, throttle = _fetched(_fetch(client, result.base_offset, len(records)))
        yield "Fetch with a greater quota", (error, found > 0, throttle)
    too_small = USERS[282]
    world.limit(([("user", too_small)], {"consumer_byte_rate": 10}))
    with world.client(too_small) as client:
        error, _, throttle = _fetched(_fetch(client, result.base_offset))
        yield "Fetch of a batch beyond the window", (error, throttle)


def _fetch(client: Client, offset: int, max_bytes: int = 1 << 20) -> Any:
    return client.exchange(FETCH, 11, fetch_body(offset, max_bytes))


def fetch_body(offset: int, max_bytes: int = 1 << 20) -> dict[str, Any]:
    """All records from an offset on."""
    item = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": TOPIC, "topic_id": None, "partitions": [item]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def _fetched(response: Any) -> tuple[str, int, int]:
    """Error, bytes and throttle time."""
    parts = [part for topic in response.responses for part in topic.partitions]
    return response.error_code.name, sum(len(part.records or b"") for part in parts), throttle_ms(response) or 0


def mutations(world: World) -> Iterator[Case]:
    """Administrative changes, in versions that are refused and in those that are only throttled (KIP-599)."""
    user = USERS[290]
    rate = 0.02  # so low that a minute makes no difference
    world.limit(([("user", user)], {"controller_mutation_rate": rate}))

    def create(*topics: tuple[str, int], validate: bool = False) -> dict[str, Any]:
        items = [
            {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
            for name, count in topics
        ]
        return {"topics": items, "timeout": 20_000, "validate_only": validate}

    def grow(count: int, *, validate: bool = False) -> dict[str, Any]:
        topics = [{"name": "m-1", "count": count, "assignments": None}]
        return {"topics": topics, "timeout": 20_000, "validate_only": validate}

    deleted = {"topic_names": ["m-1"], "timeout": 20_000}
    by_name = {"topics": [{"name": "m-1", "topic_id": None}], "timeout": 20_000}
    steps: list[tuple[str, int, int, dict[str, Any]]] = [
        ("two topics", CREATE_TOPICS, 7, create(("m-1", 3), ("m-2", 1))),
        ("one topic", CREATE_TOPICS, 7, create(("m-2", 1))),
        ("one topic", CREATE_TOPICS, 6, create(("m-2", 1))),
        ("one topic, validated only", CREATE_TOPICS, 7, create(("m-2", 1), validate=True)),
        ("a bad name", CREATE_TOPICS, 7, create(("bad name", 1))),
        ("a topic that exists", CREATE_TOPICS, 7, create(("m-1", 1))),
        ("one partition", CREATE_PARTITIONS, 3, grow(4)),
        ("one partition, validated only", CREATE_PARTITIONS, 3, grow(4, validate=True)),
        ("one topic", DELETE_TOPICS, 5, deleted),
        ("one topic", DELETE_TOPICS, 6, by_name),
        ("one topic", CREATE_TOPICS, 5, create(("m-2", 1))),
        ("one partition", CREATE_PARTITIONS, 2, grow(4)),
        ("one topic", DELETE_TOPICS, 4, deleted),
    ]
    for what, api_key, version, body in steps:
        with world.client(user) as client:
            response = client.exchange(api_key, version, body)
            results = getattr(response, "topics", None) or getattr(response, "results", None) or response.responses
            throttle = throttle_ms(response) or 0
            outcome = (
                [each.error_code.name for each in results],
                round(throttle / 1000 * rate),
                throttle > 0 and is_muted(client),
            )
        yield f"{codec.api_name(api_key)} v{version}, {what}", outcome


def times(world: World) -> Iterator[Case]:
    """Yield cases of a client whose requests may take no time.

    They are a request of many APIs, and the limit of its throttle time.
    """
    user = USERS[291]
    world.limit(([("user", user)], {"request_percentage": 1e-6}))
    named = [{"name": TOPIC, "topic_id": None}]
    plain = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    offsets = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    member = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    transactions = {"transactional_id": None, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    anything = {"resource_type_filter": 2, "resource_name_filter": None, "pattern_type_filter": 1}
    anything |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    exists = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    marker = {"producer_id": 9, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0, "topics": []}
    described = [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}]
    requests: list[tuple[int, int, dict[str, Any]]] = [
        (0, 9, produce_body(batch(1))),
        (FETCH, 11, fetch_body(0)),
        (2, 7, {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPIC, "partitions": offsets}]}),
        (3, 12, {"topics": named, **plain}),
        (8, 8, {**member, "generation_id_or_member_epoch": -1, "retention_time": -1, "topics": []}),
        (9, 7, {"group_id": "g", "topics": [], "require_stable": False}),
        (10, 4, {"coordinator_keys": ["g"], "key_type": 0}),
        (12, 4, member),
        (13, 5, {"group_id": "g", "members": [{"member_id": "m", "group_instance_id": None, "reason": None}]}),
        (15, 5, {"groups": ["g"], "include_authorized_operations": False}),
        (16, 4, {"states_filter": []}),
        (API_VERSIONS, 3, {"client_software_name": "n", "client_software_version": "1"}),
        (CREATE_TOPICS, 7, {"topics": [exists], "timeout": 20_000, "validate_only": False}),
        (22, 4, transactions),
        (27, 1, {"markers": [marker]}),
        (29, 3, anything),
        (32, 4, {"resources": described, "include_synonyms": False, "include_documentation": False}),
        (44, 1, {"resources": [], "validate_only": True}),
        (DESCRIBE, 1, {"components": [], "strict": False}),
        (50, 0, {"users": [{"name": "x"}]}),
        (60, 0, {"include_cluster_authorized_operations": False}),
    ]
    for api_key, version, body in requests:
        with world.client(user) as client:
            response = client.exchange(api_key, version, body)
            yield f"{codec.api_name(api_key)} v{version}", (throttle_ms(response), is_muted(client))
    with world.client(user) as client:
        client.request(0, 9, produce_body(batch(1), acks=0))
        client.unanswered()
        yield "Produce without a response", is_muted(client)


def connections(world: World) -> Iterator[Case]:
    """Yield cases of an address with a quota, of one with the default and of one with a quota beyond it (KIP-612)."""
    rates: dict[str | None, float] = {"127.0.0.1": 1e6, "127.0.0.2": 1, None: 2, "127.0.0.4": 100}
    world.limit(*[([("ip", ip)], {"connection_creation_rate": rate}) for ip, rate in rates.items()])
    for source in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):
        clients = [world.connect("many", source) for _ in range(25)]
        for client in clients:
            client.request(API_VERSIONS, 0, {})
        served = [_is_served(client) for client in clients]
        yield source, (served.count(True), served.count(False))
        for client in clients:
            client.close()


def _is_served(client: Client) -> bool:
    try:
        return bool(client.response(API_VERSIONS, 0).error_code is ErrorCode.none)
    except ConnectionError:
        return False


REFUSED: tuple[tuple[Parts, dict[str, float | None]], ...] = (
    ([], {"producer_byte_rate": 1}),
    ([("user", "u"), ("user", "v")], {"producer_byte_rate": 1}),
    ([("group", "g")], {"producer_byte_rate": 1}),
    ([("user", "")], {"producer_byte_rate": 1}),
    ([("client-id", "")], {"producer_byte_rate": 1}),
    ([("user", "u"), ("ip", "10.0.0.1")], {"producer_byte_rate": 1}),
    ([("ip", "10.0.0.1")], {"producer_byte_rate": 1}),
    ([("ip", "no such host.invalid")], {"connection_creation_rate": 1}),
    ([("user", "u")], {"connection_creation_rate": 1}),
    ([("user", "u")], {"no_such_rate": 1}),
    ([("user", "u")], {"SCRAM-SHA-256": 1}),
    ([("user", "u")], {"no_such_rate": None}),
    ([("user", "u")], {"request_percentage": None}),
    ([("user", "u")], {"producer_byte_rate": -1}),
    ([("user", "tiny")], {"producer_byte_rate": 1e-9}),
    ([("user", "u")], {"producer_byte_rate": 1.5}),
    ([("user", "u")], {"producer_byte_rate": 1e300}),
    ([("user", "u")], {"request_percentage": -1}),
    ([("ip", "10.0.0.1")], {"connection_creation_rate": -1}),
    ([("ip", "10.0.0.1")], {"connection_creation_rate": 1.5}),
    ([("user", "u")], {}),
    ([("user", "u"), ("client-id", None)], {"producer_byte_rate": 0.9999999}),
    ([("user", "u")], {"controller_mutation_rate": 0.25}),
)
FILTERS: tuple[tuple[bool, list[tuple[str, int, str | None]]], ...] = (
    (False, [("", 0, "u")]),
    (False, [("user", 0, "u"), ("user", 0, "v")]),
    (False, [("ip", 0, "10.0.0.1"), ("user", 0, "u")]),
    (False, [("ip", 2, None), ("client-id", 2, None)]),
    (False, [("group", 0, "g")]),
    (False, [("user", 0, None)]),
    (False, [("user", 1, "u")]),
    (False, [("user", 2, "u")]),
    (False, [("user", 3, None)]),
    (False, [("user", 0, "")]),
    (False, [("user", 0, "u")]),
    (True, [("user", 0, "u")]),
    (True, [("user", 0, "u"), ("client-id", 1, None)]),
    (False, [("client-id", 2, None)]),
    (True, [("client-id", 2, None)]),
    (False, [("user", 1, None)]),
    (True, []),
)


def requests(world: World) -> Iterator[Case]:
    """AlterClientQuotas, entry by entry, and DescribeClientQuotas."""
    for parts, quotas in REFUSED:
        (result,) = world.alter((parts, quotas))
        yield f"alter {json.dumps([parts, quotas])}", (result.error_code.name, result.error_message)
    world.limit()
    for strict, components in FILTERS:
        body = {
            "components": [
                {"entity_type": kind, "match_type": match, "match": name} for kind, match, name in components
            ],
            "strict": strict,
        }
        response = world.admin.exchange(DESCRIBE, 1, body)
        found = [
            (
                sorted((part.entity_type, part.entity_name) for part in each.entity),
                {v.key: v.value for v in each.values},
            )
            for each in response.entries or ()
        ]
        own = sorted((each for each in found if "canary" not in str(each)), key=str)
        name = f"describe {'strictly ' if strict else ''}{json.dumps(components)}"
        yield (
            name,
            (response.error_code.name, response.error_message or None, own if response.entries is not None else None),
        )


PARTS: tuple[Callable[[World], Iterator[Case]], ...] = (
    requests,
    precedence,
    sharing,
    data,
    mutations,
    times,
    connections,
)


def played(world: World) -> dict[str, dict[str, Any]]:
    """Return the outcome of each case, by part; as JSON has it."""
    found = {}
    for part in PARTS:
        found[part.__name__] = dict(part(world))
        world.unlimit()
    return dict(json.loads(json.dumps(found)))


def recorded() -> dict[str, dict[str, Any]]:
    """Kafka's."""
    return dict(json.loads(FILE.read_text()))


def record(found: dict[str, dict[str, Any]]) -> None:
    """Write the file, a line for each case."""
    parts = []
    for part, cases in found.items():
        lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(outcome)}" for case, outcome in cases.items())
        parts.append(f"{json.dumps(part)}: {{\n{lines}\n}}")
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n")
