"""Members that live: several of both protocols, in groups of their own, that share one connection of an attack.

Their frames are right: each is made from what the responses before it said. Only so do members get as far as to have
partitions, and to lose them when another one on their connection leaves.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.adapters import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from muster.actors.wire.kafka import codec
from tests.fuzz.frames import Frame
from tests.fuzz.values import TOPICS
from tests.simulation.client import STATIC_AGES, assignment, commit_body, fetch_body, subscription

E = ErrorCode
SESSION_MS, REBALANCE_MS = 6_000, 500
_VERSION = 1
"""Version of ConsumerGroupHeartbeat: clients make their member ids."""
_COMMIT_VERSION = _FETCH_VERSION = 9
_SIZES = (2, 3, 3)
"""Members of each group."""
_LEAVES = 0.15
LEFT, LEFT_FOR_A_WHILE = -1, -2
Heard = Callable[[Any], None]


class Members:
    """The members of one connection, which move to the next one with it."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self._chance = chance
        self._answered = 0
        name = f"members-{chance.getrandbits(32):08x}"
        self._consumers = [_Consumer(self, f"{name}-848", chance, number) for number in range(chance.choice(_SIZES))]
        self._classic = _ClassicGroup(self, name, chance, chance.choice(_SIZES))

    def frames(self, count: int) -> list[Frame]:
        """Return requests that may be in flight at the same time."""
        classic = self._classic.frames(count // 2)
        frames = classic + [self._chance.choice(self._consumers).frame() for _ in range(count - len(classic))]
        self._chance.shuffle(frames)
        return frames

    def take_answered(self) -> int:
        """Return the number of requests answered without an error since the last call.

        Only members beside others of their group count.
        """
        answered, self._answered = self._answered, 0
        return answered

    def well(self, *, are_several: bool) -> None:
        """Count a request of a member that was answered without an error."""
        self._answered += are_several

    @property
    def consumers(self) -> int:
        """How many are in their group."""
        return sum(each.epoch > 0 for each in self._consumers)


def _frame(api_key: int, version: int, body: dict[str, Any], heard: Heard) -> Frame:
    return Frame(api_key, version, codec.encode_request(api_key, version, 0, "fuzz", body), 0.0, heard)


class _Consumer:
    """A member of KIP-848, static or not."""

    def __init__(self, members: Members, group: str, chance: random.Random, number: int) -> None:
        self._members, self._group, self._chance = members, group, chance
        self._instance = f"{group}-{number}" if number == 0 else None
        self.epoch = 0
        """0 until a response says more."""
        self._member_id = ""
        self._owned: list[dict[str, Any]] = []
        self._lives = 0
        self._come()

    def _come(self) -> None:
        self._lives += 1
        self._member_id = str(UUID(int=self._chance.getrandbits(128)))
        self.epoch, self._owned = 0, []

    def frame(self) -> Frame:
        if self.epoch and self._chance.random() < _LEAVES:
            epoch = LEFT if self._instance is None else self._chance.choice((LEFT, LEFT_FOR_A_WHILE))
            body = self._body(epoch)
            self._come()
            return _frame(CONSUMER_GROUP_HEARTBEAT, _VERSION, body, lambda _: None)
        if self.epoch and self._chance.random() < 0.3:
            return self._with_offsets()
        heard = self._in_this_life(self._beaten)
        return _frame(CONSUMER_GROUP_HEARTBEAT, _VERSION, self._body(self.epoch), heard)

    def _body(self, epoch: int) -> dict[str, Any]:
        joins = epoch == 0
        return {
            "group_id": self._group,
            "member_id": self._member_id,
            "member_epoch": epoch,
            "instance_id": self._instance,
            "rack_id": None,
            "rebalance_timeout": REBALANCE_MS if joins else -1,
            "subscribed_topic_names": [*TOPICS[:2]] if joins else None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": self._owned if epoch >= 0 else None,
        }

    def _with_offsets(self) -> Frame:
        if self._chance.random() < 0.5:
            body = commit_body(self._group, {(TOPICS[0], 0): 1}, generation=self.epoch, member_id=self._member_id)
            return _frame(OFFSET_COMMIT, _COMMIT_VERSION, body, lambda _: None)
        body = fetch_body(_FETCH_VERSION, self._group, [(TOPICS[0], 0)])
        body["groups"][0] |= {"member_id": self._member_id, "member_epoch": self.epoch}
        return _frame(OFFSET_FETCH, _FETCH_VERSION, body, lambda _: None)

    def _in_this_life(self, heard: Heard) -> Heard:
        life = self._lives
        return lambda response: heard(response) if life == self._lives else None

    def _beaten(self, response: Any) -> None:
        if response.error_code is not E.none:
            if self.epoch or response.error_code is E.unreleased_instance_id:
                self._come()
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self._owned = [
                {"topic_id": each.topic_id, "partitions": [*each.partitions]}
                for each in response.assignment.topic_partitions
            ]
        self._members.well(are_several=self._members.consumers > 1)


class _ClassicGroup:
    """Its members join, sync, and are in a generation, all at the same time: each waits for the others."""

    def __init__(self, members: Members, name: str, chance: random.Random, size: int) -> None:
        self.name = name
        self.chance = chance
        self.versions = chance.choice(STATIC_AGES)
        self.is_joined = self.is_synced = False
        self._members = members
        self._all = [_Classic(self) for _ in range(size)]

    def frames(self, count: int) -> list[Frame]:
        if not self.is_joined:
            self.is_joined, self.is_synced = True, False
            return [each.join() for each in self._all]
        if not self.is_synced:
            self.is_synced = True
            ids = [each.member_id for each in self._all]
            return [each.sync(ids) for each in self._all]
        return [self.chance.choice(self._all).frame() for _ in range(count)]

    def well(self) -> None:
        self._members.well(are_several=True)


class _Classic:
    def __init__(self, group: _ClassicGroup) -> None:
        self._group = group
        self.member_id = ""
        self._generation = -1

    def join(self) -> Frame:
        body = {
            "group_id": self._group.name,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": REBALANCE_MS,
            "member_id": self.member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(TOPICS[:1])}],
            "reason": None,
        }
        return _frame(JOIN_GROUP, self._group.versions.join, body, self._joined)

    def _joined(self, response: Any) -> None:
        self.member_id, self._generation = response.member_id, response.generation_id
        self._heard(response)

    def sync(self, ids: list[str]) -> Frame:
        """Whoever is the leader gives each member one partition."""
        shares = [{"member_id": each, "assignment": assignment([(TOPICS[0], n)])} for n, each in enumerate(ids)]
        body = self._identity() | {"protocol_type": "consumer", "protocol_name": "range", "assignments": shares}
        return _frame(SYNC_GROUP, self._group.versions.sync, body, self._heard)

    def frame(self) -> Frame:
        chance, group = self._group.chance, self._group
        kind = chance.random()
        if kind < _LEAVES:
            left = {"member_id": self.member_id, "group_instance_id": None, "reason": None}
            body = {"group_id": group.name, "member_id": self.member_id, "members": [left]}
            self.member_id, group.is_joined = "", False
            return _frame(LEAVE_GROUP, group.versions.leave, body, lambda _: None)
        if kind < 0.4:
            offsets = {(TOPICS[0], 0): 1}
            body = commit_body(group.name, offsets, generation=self._generation, member_id=self.member_id)
            return _frame(OFFSET_COMMIT, group.versions.commit, body, lambda _: None)
        if kind < 0.6:
            version = group.versions.fetch
            return _frame(OFFSET_FETCH, version, fetch_body(version, group.name, [(TOPICS[0], 0)]), lambda _: None)
        return _frame(HEARTBEAT, group.versions.heartbeat, self._identity(), self._heard)

    def _identity(self) -> dict[str, Any]:
        return {
            "group_id": self._group.name,
            "generation_id": self._generation,
            "member_id": self.member_id,
            "group_instance_id": None,
        }

    def _heard(self, response: Any) -> None:
        if response.error_code is E.none:
            self._group.well()
            return
        self._group.is_joined = False
        if response.error_code is E.unknown_member_id:
            self.member_id = ""
