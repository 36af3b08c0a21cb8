"""Base of all clients: a name, a host, pauses during which they do nothing, and several lives."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from muster.actors.group.codec.adapters import JOIN_GROUP, SYNC_GROUP
from muster.actors.group.codec.primitives import Writer
from tests.simulation.network import Network, Then
from tests.simulation.schedule import Schedule

REQUEST_TIMEOUT_MS = 3_000
CONNECTIONS = 2


class Rumours(Protocol):
    """Public knowledge about a group: names that any client may use, rightly or not."""

    member_ids: list[str]
    instance_ids: list[str]
    generation: int


class Surroundings(Protocol):
    """The world as clients see it."""

    schedule: Schedule
    chance: random.Random
    network: Network
    topics: dict[str, int]
    """Number of partitions of every topic that exists."""

    @property
    def rumours(self) -> Mapping[str, Any]: ...

    def next_offset(self) -> int:
        """Return an offset that was never committed before."""
        ...


class Versions(NamedTuple):
    """The versions of each API that a client uses."""

    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int


AGES = (
    Versions(0, 0, 0, 0, 2, 1),
    Versions(1, 0, 0, 0, 3, 2),
    Versions(3, 1, 1, 1, 4, 3),
    Versions(4, 2, 2, 2, 5, 5),
    Versions(5, 3, 3, 3, 7, 5),
    Versions(6, 4, 4, 4, 8, 6),
    Versions(7, 5, 4, 4, 8, 7),
    Versions(8, 5, 4, 5, 8, 8),
    Versions(9, 5, 4, 5, 9, 9),
)
STATIC_AGES = AGES[4:]
"""group.instance.id is in all of them (KIP-345)."""


class Client:
    honest = False

    def __init__(self, world: Surroundings, name: str) -> None:
        self.world = world
        self.name = name
        self.host = f"10.0.0.{sum(name.encode()) % 250 + 1}"
        self.life = 0
        self._awake_ms = 0

    def pause(self, ms: int) -> None:
        """Pause (a long garbage collection), then continue as if nothing had happened."""
        self._awake_ms = max(self._awake_ms, self.world.schedule.now_ms + ms)

    def wake(self) -> None:
        self._awake_ms = 0

    def later(self, ms: int, do: Callable[[], None]) -> None:
        """Execute it in this life, when awake."""
        self.world.schedule.after(ms, self._alive(do))

    def request(
        self, api_key: int, version: int, body: dict[str, Any], then: Then, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> None:
        life = self.life

        def received(response: Any) -> None:
            if life == self.life:
                self._alive(lambda: then(response))()

        self.world.network.send(
            self.name, self.host, self.honest, api_key, version, body, received, timeout_ms, self._connection(api_key)
        )

    def _connection(self, api_key: int) -> str:
        """Clients share a few, move between them with each life, and have another one for requests that wait."""
        number = (sum(self.name.encode()) + self.life) % CONNECTIONS
        return f"waiting-{number}" if api_key in (JOIN_GROUP, SYNC_GROUP) else f"{number}"

    def _alive(self, do: Callable[[], None]) -> Callable[[], None]:
        life = self.life

        def run() -> None:
            if life != self.life:
                return
            if self.world.schedule.now_ms < self._awake_ms:
                self.world.schedule.at(self._awake_ms, run)
            else:
                do()

        return run


def subscription(topics: tuple[str, ...]) -> bytes:
    """ConsumerProtocolSubscription v0."""
    out = Writer().int16(0).int32(len(topics))
    for topic in topics:
        out.string(topic)
    return out.int32(-1).bytes()


def assignment(partitions: list[tuple[str, int]]) -> bytes:
    """ConsumerProtocolAssignment v0."""
    out = Writer().int16(0).int32(len(partitions))
    for topic, partition in partitions:
        out.string(topic).int32(1).int32(partition)
    return out.int32(-1).bytes()


def commit_body(
    group: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
    retention_ms: int = -1,
    metadata: str | None = None,
) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
        )
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member_id,
        "group_instance_id": instance,
        "retention_time": retention_ms,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }


def fetch_body(
    version: int, group: str, partitions: list[tuple[str, int]] | None, *, stable: bool = False
) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions or ():
        topics.setdefault(topic, []).append(partition)
    wanted = [{"name": name, "partition_indexes": indices} for name, indices in topics.items()]
    named = None if partitions is None and version >= 2 else wanted
    return {
        "group_id": group,
        "topics": named,
        "groups": [{"group_id": group, "topics": named}],
        "require_stable": stable,
    }
