"""All other clients: liars, consumers without membership, and administrators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.actors.group.codec import adapters
from muster.actors.group.messages import WriteTxnMarker
from muster.actors.group.types import Producer as BatchProducer
from muster.actors.group.types import TxnMarker
from tests.simulation.client import AGES, Client, Surroundings, assignment, commit_body, fetch_body, subscription

Mark = Callable[[str, WriteTxnMarker, Callable[[bool], None]], None]
"""Sends a marker to the coordinator; the last argument is called with whether it is written."""
GARBAGE = b"\x00\x01\xff\xff"


class Stranger(Client):
    """Sends requests from time to time, and ignores the responses."""

    def __init__(self, world: Surroundings, name: str, groups: list[str], every_ms: int) -> None:
        super().__init__(world, name)
        self.groups = groups
        self.every_ms = every_ms

    def start(self) -> None:
        self.later(self.world.chance.randint(1, 2 * self.every_ms), self._act)

    def _act(self) -> None:
        self.act(self.world.chance.choice(self.groups))
        self.start()

    def act(self, group: str) -> None:
        raise NotImplementedError

    def send(self, api_key: int, version: int, body: dict[str, Any]) -> None:
        self.request(api_key, version, body, lambda response: None)

    def some_partitions(self) -> list[tuple[str, int]]:
        chance = self.world.chance
        known = [(topic, index) for topic, count in sorted(self.world.topics.items()) for index in range(count)]
        return chance.sample(known, min(len(known), chance.randint(1, 3)))

    def some_offsets(self) -> dict[tuple[str, int], int]:
        return {partition: self.world.next_offset() for partition in self.some_partitions()}


class Liar(Stranger):
    """Uses names of others, or unknown ones; joins and disappears; sends nonsense."""

    def act(self, group: str) -> None:
        chance = self.world.chance
        rumours = self.world.rumours[group]
        self.member_id = chance.choice([*rumours.member_ids[-6:], "nobody", ""])
        self.instance = chance.choice([None, None, None, *rumours.instance_ids[-3:], "no-instance"])
        self.generation = rumours.generation + chance.choice([-1, 0, 0, 0, 1, 7])
        lie = chance.choice(
            [self._beat, self._sync, self._join, self._commit, self._fetch, self._leave, self._nonsense]
        )
        lie(group)

    def _beat(self, group: str) -> None:
        self.send(adapters.HEARTBEAT, self.world.chance.randint(0, 4), self._identity(group))

    def _sync(self, group: str) -> None:
        chance = self.world.chance
        members = self.world.rumours[group].member_ids[-6:]
        grabbed = assignment(self.some_partitions())
        shares = {member: chance.choice([b"", GARBAGE, grabbed]) for member in members}
        body = self._identity(group) | {
            "protocol_type": chance.choice(["consumer", "consumer", "connect"]),
            "protocol_name": chance.choice(["range", "roundrobin", "other"]),
            "assignments": [{"member_id": member, "assignment": share} for member, share in shares.items()],
        }
        self.send(adapters.SYNC_GROUP, chance.choice([0, 3, 5]), body)

    def _join(self, group: str) -> None:
        """Sometimes for itself (and then it is silent forever), sometimes in the name of another."""
        chance = self.world.chance
        body = {
            "group_id": group,
            "session_timeout": chance.choice([6_000, 6_000, 7_000, 1]),
            "rebalance_timeout": chance.choice([0, 5_000, 10_000]),
            "member_id": chance.choice(["", "", self.member_id]),
            "group_instance_id": self.instance if chance.random() < 0.3 else None,
            "protocol_type": chance.choice(["consumer", "consumer", "consumer", "connect"]),
            "protocols": [
                {"name": name, "metadata": chance.choice([subscription(("t0",)), GARBAGE])}
                for name in chance.choice([("range", "roundrobin"), ("range",), ("other",), ()])
            ],
        }
        self.send(adapters.JOIN_GROUP, chance.choice([0, 2, 3, 4, 5, 9, 9]), body)

    def _commit(self, group: str) -> None:
        body = commit_body(
            group,
            self.some_offsets(),
            generation=self.world.chance.choice([self.generation, self.generation, -1]),
            member_id=self.member_id,
            instance=self.instance,
        )
        self.send(adapters.OFFSET_COMMIT, self.world.chance.choice([2, 6, 7, 8, 9]), body)

    def _fetch(self, group: str) -> None:
        version = self.world.chance.randint(2, 9)
        self.send(adapters.OFFSET_FETCH, version, fetch_body(version, group, None, stable=True))

    def _leave(self, group: str) -> None:
        """Rarely for another; otherwise with an unknown id."""
        member_id = self.member_id if self.world.chance.random() < 0.2 else "nobody"
        version = self.world.chance.choice([0, 3, 5])
        members = [{"member_id": member_id, "group_instance_id": None}] * 2
        self.send(adapters.LEAVE_GROUP, version, {"group_id": group, "member_id": member_id, "members": members})

    def _nonsense(self, group: str) -> None:
        chance = self.world.chance
        match chance.randrange(4):
            case 0:
                self.send(adapters.HEARTBEAT, 4, self._identity(""))
            case 1:
                self.send(adapters.OFFSET_COMMIT, 8, commit_body(group, self.some_offsets(), metadata="x" * 5_000))
            case 2:
                self.send(adapters.SYNC_GROUP, 5, self._identity(group) | {"protocol_type": None, "assignments": []})
            case _:
                self.send(adapters.DELETE_GROUPS, 2, {"groups_names": ["nowhere", "nowhere", group]})

    def _identity(self, group: str) -> dict[str, Any]:
        return {
            "group_id": group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_name": None,
        }


class SimpleConsumer(Stranger):
    """Assigns partitions to itself, and keeps its offsets in a group, its own or not."""

    def act(self, group: str) -> None:
        chance = self.world.chance
        version = chance.choice(AGES).commit
        if chance.random() < 0.4:
            fetch_version = chance.choice(AGES).fetch
            self.send(adapters.OFFSET_FETCH, fetch_version, fetch_body(fetch_version, group, self.some_partitions()))
        else:
            retention_ms = chance.choice([-1, -1, 5_000]) if version <= 4 else -1
            body = commit_body(group, self.some_offsets(), retention_ms=retention_ms)
            self.send(adapters.OFFSET_COMMIT, version, body)


class Producer(Stranger):
    """Commits offsets in transactions. A coordinator ends them, and repeats each marker until it is written."""

    def __init__(
        self, world: Surroundings, name: str, groups: list[str], every_ms: int, producer_id: int, mark: Mark
    ) -> None:
        super().__init__(world, name, groups, every_ms)
        self._producer_id = producer_id
        self._mark = mark
        self._ending = False

    def act(self, group: str) -> None:
        if self._ending:
            return
        chance = self.world.chance
        if chance.random() < 0.4:
            self._ending = True
            self._end(chance.random() < 0.6)
        else:
            self._commit(group)

    def _commit(self, group: str) -> None:
        """Commit as a consumer without membership, or in the name of a member."""
        chance = self.world.chance
        rumours = self.world.rumours[group]
        body = commit_body(group, self.some_offsets()) | {
            "transactional_id": self.name,
            "producer_id": self._producer_id,
            "producer_epoch": 0,
            "generation_id": chance.choice([-1, -1, rumours.generation, rumours.generation, 7]),
            "member_id": chance.choice(["", "", *rumours.member_ids[-4:]]),
            "group_instance_id": chance.choice([None, None, None, *rumours.instance_ids[-2:]]),
        }
        self.send(adapters.TXN_OFFSET_COMMIT, chance.randint(0, 4), body)

    def abort(self) -> None:
        """Abort its last transaction, which has timed out."""
        if not self._ending:
            self._ending = True
            self._end(False)

    def _end(self, commit: bool) -> None:
        marker = WriteTxnMarker(marker=TxnMarker(BatchProducer(self._producer_id, 0), commit, coordinator_epoch=0))
        attempts: list[bool] = []

        def done(written: bool) -> None:
            if attempts:
                return
            attempts.append(written)
            if written:
                self._ending = False
            else:
                self.world.schedule.after(100, lambda: self._end(commit))

        self._mark(self.name, marker, done)


class Administrator(Stranger):
    """Lists, describes, resets, deletes, evicts."""

    def act(self, group: str) -> None:
        chance = self.world.chance
        match chance.randrange(8):
            case 0:
                self.send(adapters.LIST_GROUPS, chance.randint(0, 5), {"states_filter": [], "types_filter": []})
            case 1:
                body = {"groups": [group, "nowhere"], "include_authorized_operations": True}
                self.send(adapters.DESCRIBE_GROUPS, chance.randint(0, 6), body)
            case 2 | 3:
                self.send(adapters.DELETE_GROUPS, 2, {"groups_names": [group]})
            case 4 | 5:
                topics: dict[str, list[dict[str, int]]] = {}
                for topic, index in self.some_partitions():
                    topics.setdefault(topic, []).append({"partition_index": index})
                named = [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]
                self.send(adapters.OFFSET_DELETE, 0, {"group_id": group, "topics": named})
            case 6:
                self.send(adapters.OFFSET_COMMIT, 9, commit_body(group, self.some_offsets()))
            case _:
                instances = self.world.rumours[group].instance_ids[-3:]
                members = [{"member_id": "", "group_instance_id": name, "reason": "evicted"} for name in instances]
                self.send(adapters.LEAVE_GROUP, 5, {"group_id": group, "members": members})
