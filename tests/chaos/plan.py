"""The plan of a run, computed from its seed before it starts: the load, and the time and target of each fault.

The run itself is real: processes, sockets and clocks determine the effect of the plan.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from muster.placement.hashing import partition_for

OFFSETS_PARTITIONS = 4
TRANSACTIONS_PARTITIONS = 2
LOG_ACTORS = 2
GATEWAYS = 3
WARM_S, QUIET_S = 8.0, 12.0
"""Times without faults, at the beginning and at the end."""
_REST_EVERY_S, _REST_S = 25.0, 6.0
"""From time to time there are no new faults for a while."""

KINDS = {
    "kill": 6,
    "pause": 3,
    "slow": 2,
    "request": 6,
    "disk": 1,
    "zookeeper": 1,
    "client-kill": 2,
    "client-pause": 1,
    "client-leave": 2,
    "everything": 1,
}
"""Number of cards of each kind in the deck from which faults are dealt."""
_ACTORS = {"offsets": 5, "transactions": 4, "log": 3, "gateway": 3, "controller": 1, "reconciler": 1, "standby": 1}
_REQUESTS = {
    "error": ("Produce", "Fetch", "OffsetCommit", "OffsetFetch", "JoinGroup", "SyncGroup", "Heartbeat", "ListOffsets"),
    "no-answer": ("Produce", "Fetch", "OffsetCommit", "OffsetFetch", "Heartbeat", "FindCoordinator", "Metadata"),
    "drop": ("Produce", "Fetch", "OffsetCommit", "OffsetFetch", "Heartbeat", "FindCoordinator", "Metadata"),
    "delay": ("Produce", "Fetch", "OffsetCommit", "OffsetFetch", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"),
    "close": ("Produce", "Fetch", "OffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat", "InitProducerId"),
}
"""Action -> APIs. JoinGroup and SyncGroup get a response, since librdkafka would wait five minutes for one."""
_OF_TRANSACTIONS = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "InitProducerId")
_OF_CONSUMER_GROUPS = "ConsumerGroupHeartbeat"
"""These may meet any of these faults, too."""
_ERRORS = {
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "KAFKA_STORAGE_ERROR"),
    "Fetch": ("NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR"),
    "ListOffsets": ("NOT_LEADER_OR_FOLLOWER",),
    "OffsetCommit": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
    "OffsetFetch": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    "JoinGroup": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    "SyncGroup": ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"),
    "Heartbeat": ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"),
    "ConsumerGroupHeartbeat": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
    "AddPartitionsToTxn": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "AddOffsetsToTxn": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "TxnOffsetCommit": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    "EndTxn": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "InitProducerId": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
}
"""Errors that a broker in trouble returns; clients recover from each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A client that the run keeps alive, with one process after the other."""

    name: str
    role: str
    library: str
    topics: tuple[str, ...]
    idempotent: bool = True
    group: str = ""
    mode: str = "manual"
    strategy: str = "roundrobin"
    protocol: str = "classic"
    regex: str = ""
    outputs: tuple[str, ...] = ()
    """Topics that a transformer writes in transactions."""
    own_timeouts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``target``: an actor, a worker, ``zookeeper``, ``everything``, or a kind of request."""

    at_s: float
    """Since the load began. Time in which the whole cluster is down does not count."""
    kind: str
    target: str
    for_s: float = 0.0
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the request fault or of ``slow``, as in the server's fault injection."""

    def __str__(self) -> str:
        lasts = f" for {self.for_s:.1f} s" if self.for_s else ""
        more = "".join(f" {name}={value}" for name, value in self.fields.items())
        return f"{self.at_s:7.2f} s  {self.kind} {self.target}{lasts}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    seed: int
    minutes: float
    topics: dict[str, int]
    workers: tuple[Worker, ...]
    faults: tuple[Fault, ...]

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        return {worker.group: worker.topics for worker in self.workers if worker.group}

    @property
    def consumer_groups(self) -> tuple[str, ...]:
        """Groups that have members of the consumer protocol (KIP-848)."""
        return tuple(sorted({worker.group for worker in self.workers if worker.protocol == "consumer"}))

    @property
    def shared_groups(self) -> tuple[str, ...]:
        """Groups that have members of both protocols."""
        classic = {worker.group for worker in self.workers if worker.protocol == "classic"}
        return tuple(group for group in self.consumer_groups if group in classic)

    @property
    def transactional_topics(self) -> tuple[str, ...]:
        """Topics with records in transactions, and nothing else."""
        return tuple(sorted({topic for worker in self.workers for topic in worker.outputs}))

    @property
    def quiet_at_s(self) -> float:
        return max(WARM_S, self.minutes * 60 - QUIET_S)

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


def make(seed: int, minutes: float) -> Plan:
    """Return the plan of a seed; it is always the same for the same version of this file."""
    chance = random.Random(seed)
    topics = {"orders": 3, "clicks": 2, "audit": 1, "copies": 2}
    workers = tuple(_load(chance))
    end_s = max(WARM_S, minutes * 60 - QUIET_S)
    faults = tuple(_faults(chance, workers, end_s))
    return Plan(seed=seed, minutes=minutes, topics=topics, workers=workers, faults=faults)


def _load(chance: random.Random) -> Iterator[Worker]:
    """All libraries, as producers of both kinds and as members of groups; their roles depend on the seed."""
    libraries = ["confluent", "kafka-python", "aiokafka"]
    chance.shuffle(libraries)
    pairs = [("orders", "clicks"), ("clicks", "audit"), ("orders", "audit")]
    for number, library in enumerate(libraries):
        yield Worker(name=f"producer-{number}", role="producer", library=library, topics=pairs[number])
    library = chance.choice(libraries)
    yield Worker(name="producer-3", role="producer", library=library, topics=("orders", "audit"), idempotent=False)
    mixed, auto, sticky, alone = (f"{name}-{chance.randrange(1000)}" for name in ("mixed", "auto", "sticky", "alone"))
    for number, library in enumerate(libraries):
        yield _member(mixed, number, library, ("orders", "clicks"))
    for number, library in enumerate(chance.sample(libraries, 2)):
        yield _member(auto, number, library, ("clicks", "audit"), mode="auto")
    for number in range(2):
        yield _member(sticky, number, "confluent", ("orders", "audit"), strategy="cooperative-sticky")
    yield from _consumer_groups(chance)
    yield _member(alone, 0, "confluent", ("orders",), mode="assign")
    copiers, readers = (f"{name}-{chance.randrange(1000)}" for name in ("copiers", "readers"))
    protocol = chance.choice(("classic", "consumer"))
    for number in range(2):
        yield Worker(
            name=f"{copiers}-{number}",
            role="transformer",
            library="confluent",
            topics=("orders",),
            outputs=("copies",),
            group=copiers,
            protocol=protocol,
        )
    yield _member(readers, 0, "confluent", ("copies",))


def _consumer_groups(chance: random.Random) -> Iterator[Worker]:
    """Yield members of groups of KIP-848: one group has a regular expression, one is shared by both protocols."""
    assigned, shared = (f"{name}-{chance.randrange(1000)}" for name in ("assigned", "shared"))
    yield _member(assigned, 0, "confluent", ("orders", "audit"), protocol="consumer")
    yield _member(assigned, 1, "confluent", ("orders", "audit"), protocol="consumer", regex="^(orders|audit)$")
    yield _member(shared, 0, "confluent", ("orders", "clicks"), protocol="consumer")
    yield _member(shared, 1, "confluent", ("orders", "clicks"))


def _member(group: str, number: int, library: str, topics: tuple[str, ...], **more: Any) -> Worker:
    return Worker(name=f"{group}-{number}", role="consumer", library=library, topics=topics, group=group, **more)


def _faults(chance: random.Random, workers: tuple[Worker, ...], end_s: float) -> Iterator[Fault]:
    busy = sorted({partition_for(worker.group, OFFSETS_PARTITIONS) for worker in workers if worker.group})
    deck: list[str] = []
    at_s, rest_s = WARM_S, WARM_S + _REST_EVERY_S
    while True:
        deck = deck or _shuffled(chance)
        kind = deck.pop()
        fault = _fault(chance, at_s, kind, workers, busy)
        if fault.at_s + fault.for_s > end_s:
            return
        yield fault
        at_s += chance.uniform(1.0, 4.0) + (8.0 if kind == "everything" else 0.0)
        if at_s > rest_s:
            at_s += _REST_S
            rest_s = at_s + _REST_EVERY_S


def _shuffled(chance: random.Random) -> list[str]:
    deck = [kind for kind, cards in KINDS.items() for _ in range(cards)]
    chance.shuffle(deck)
    return deck


def _fault(chance: random.Random, at_s: float, kind: str, workers: tuple[Worker, ...], busy: list[int]) -> Fault:
    at_s = round(at_s, 2)
    match kind:
        case "kill":
            return Fault(at_s=at_s, kind=kind, target=_actor(chance, busy))
        case "pause":
            return Fault(at_s=at_s, kind=kind, target=_actor(chance, busy), for_s=_seconds(chance, 1, 8))
        case "slow":
            speed = chance.choice((0.05, 0.2, 0.5))
            lasts_s = _seconds(chance, 2, 6)
            return Fault(at_s=at_s, kind=kind, target=_actor(chance, busy), for_s=lasts_s, fields={"speed": speed})
        case "request":
            action = chance.choice(sorted(_REQUESTS))
            api = chance.choice(_REQUESTS[action])
            if chance.random() < 0.4:
                api = chance.choice((*_OF_TRANSACTIONS, _OF_CONSUMER_GROUPS))
            fields = {"action": action, "api": api, **_request(chance, action, api)}
            return Fault(at_s=at_s, kind=kind, target=action, for_s=_seconds(chance, 2, 6), fields=fields)
        case "disk":
            target = chance.choice([f"offsets-{chance.choice(busy)}", f"log-{chance.randrange(LOG_ACTORS)}"])
            return Fault(at_s=at_s, kind=kind, target=target, for_s=_seconds(chance, 1, 4))
        case "zookeeper":
            return Fault(at_s=at_s, kind=kind, target=kind, for_s=_seconds(chance, 3, 10))
        case "everything":
            return Fault(at_s=at_s, kind=kind, target=kind)
        case _:
            lasts_s = _seconds(chance, 1, 12 if kind == "client-pause" else 4)
            return Fault(at_s=at_s, kind=kind, target=chance.choice(workers).name, for_s=lasts_s)


def _actor(chance: random.Random, busy: list[int]) -> str:
    """Return an actor that is in use: a coordinator must have groups."""
    kind = chance.choices(list(_ACTORS), list(_ACTORS.values()))[0]
    match kind:
        case "offsets":
            return f"offsets-{chance.choice(busy)}"
        case "log":
            return f"log-{chance.randrange(LOG_ACTORS)}"
        case "transactions":
            return f"transactions-{chance.randrange(TRANSACTIONS_PARTITIONS)}"
        case "gateway":
            return f"gateway-{chance.randint(1, GATEWAYS)}"
        case _:
            return kind


def _request(chance: random.Random, action: str, api: str) -> dict[str, Any]:
    probability = {"probability": chance.choice((0.1, 0.3, 0.6)), "seed": chance.randrange(1000)}
    when = chance.choice(("once", probability, probability))
    fields: dict[str, Any] = {"when": when, "phase": chance.choice(("before", "after"))}
    if action == "error":
        fields["error"] = chance.choice(_ERRORS[api])
    if action == "delay":
        fields["delay_ms"] = chance.choice((200, 1_000, 3_000))
    return fields


def _seconds(chance: random.Random, least: float, most: float) -> float:
    return round(chance.uniform(least, most), 2)
