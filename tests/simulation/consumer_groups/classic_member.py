"""A member with the classic protocol, which may be in a group of KIP-848: eager, or cooperative (KIP-429).

A cooperative consumer keeps its partitions while it joins, and says in its subscription which it has. It gives up what
a new assignment does not have, and then joins again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_protocol import assigned_partitions, owned_partitions, subscribed_topics
from muster.actors.group.codec.primitives import Writer
from tests.simulation.client import Surroundings, assignment
from tests.simulation.consumer import RETRIABLE, Consumer, Stage
from tests.simulation.consumer_groups.member import Partition
from tests.simulation.planted.broken import Broken

E = ErrorCode
LOST_EVERYTHING = {E.unknown_member_id, E.illegal_generation, E.fenced_instance_id}
"""Errors after which a consumer gives up its partitions at once."""
EXPECTED = LOST_EVERYTHING | RETRIABLE | {E.rebalance_in_progress}
TOPICS = [("t0",), ("t0", "t1")]


class ClassicMember(Consumer):
    def __init__(
        self,
        world: Surroundings,
        name: str,
        group: str,
        *,
        instance: str | None,
        cooperative: bool,
        given: Callable[[Any], None],
    ) -> None:
        """``given`` is called with this member whenever it begins to use partitions."""
        super().__init__(world, name, group, instance=instance, topics=world.chance.choice(TOPICS))
        self.is_cooperative = cooperative
        if cooperative:
            self.protocols = ("cooperative-sticky",)
        self.commits_late = False
        self._given = given
        self._joined_for = self.topics
        """The topics of its latest JoinGroup."""
        self._gives_up = False

    @property
    def wanted(self) -> frozenset[str]:
        return frozenset(self.topics)

    @property
    def holds(self) -> frozenset[Partition]:
        """Partitions that it uses: an eager consumer gives up everything before it joins."""
        return frozenset(self.owned) if self.is_cooperative or self.stage is Stage.CONSUMING else frozenset()

    @property
    def is_settled(self) -> bool:
        return self.stage is Stage.CONSUMING

    def change_subscription(self) -> None:
        chance = self.world.chance
        known = sorted(self.world.topics)
        self.topics = tuple(sorted(chance.sample(known, chance.randint(1, len(known)))))
        self.later(0, self._join_for_topics)

    def _join_for_topics(self) -> None:
        if self.stage is Stage.CONSUMING and self.topics != self._joined_for:
            self.join()

    def join(self) -> None:
        self._gives_up, self._joined_for = False, self.topics
        super().join()

    def _kept(self) -> list[Partition]:
        return [each for each in self.owned if each[0] in self.topics] if self.is_cooperative else []

    def _metadata(self) -> bytes:
        return _subscription(self.topics, self.owned) if self.is_cooperative else super()._metadata()

    def _assign(self, members: Any) -> dict[str, bytes]:
        """Cooperative: no member gets what another one still has; the latter joins again without it."""
        if not self.is_cooperative:
            return super()._assign(members)
        wishes = {member.member_id: subscribed_topics(member.metadata) or frozenset() for member in members}
        owners = {each: member.member_id for member in members for each in owned_partitions(member.metadata)}
        shares: dict[str, list[Partition]] = {member_id: [] for member_id in sorted(wishes)}
        turn = 0
        for topic, count in sorted(self.world.topics.items()):
            takers = [member_id for member_id in shares if topic in wishes[member_id]]
            for index in range(count if takers else 0):
                taker, turn = takers[turn % len(takers)], turn + 1
                if owners.get((topic, index), taker) == taker:
                    shares[taker].append((topic, index))
        return {member_id: assignment(share) for member_id, share in shares.items()}

    def _synced(self, response: Any) -> None:
        if response is None or response.error_code is not E.none:
            super()._synced(response)
            return
        goal = assigned_partitions(response.assignment) or frozenset()
        self._gives_up = self.is_cooperative and not goal.issuperset(self.owned)
        slow = self._gives_up and self.world.chance.random() < 0.2
        if slow:
            self._later_in_round(self.world.chance.choice([800, 2_500]), lambda: self._use(response))
        else:
            self._use(response)

    def _use(self, response: Any) -> None:
        """Use the partitions of the assignment, once it has given up all others."""
        super()._synced(response)
        self._given(self)
        if self._gives_up:
            self.join()
        else:
            self._join_for_topics()

    def _beaten(self, response: Any) -> None:
        moving = response is not None and response.error_code is E.rebalance_in_progress
        if not (moving and self._gives_up):  # it will join when it has given up its partitions
            super()._beaten(response)

    def _refused(self, error: ErrorCode) -> None:
        """Allow a group that becomes a classic one another protocol than a member was just given, as in Kafka."""
        has_choice = len(self.protocols) > 1 and error is E.inconsistent_group_protocol
        if error not in EXPECTED and not has_choice:
            raise Broken(f"{self.name} gets {error}", "honest_members_are_understood")
        kept = self.owned if self.is_cooperative and error not in LOST_EVERYTHING else []
        super()._refused(error)
        self.owned, self._gives_up = kept, False


def _subscription(topics: tuple[str, ...], owned: list[Partition]) -> bytes:
    """ConsumerProtocolSubscription v1."""
    by_topic = {topic: [index for _, index in mine] for topic, mine in groupby(sorted(owned), lambda each: each[0])}
    out = Writer().int16(1).strings(topics).int32(-1).array_length(len(by_topic))
    for topic, indexes in by_topic.items():
        out.string(topic).int32s(indexes)
    return out.bytes()
