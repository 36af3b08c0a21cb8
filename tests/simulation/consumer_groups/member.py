"""A member of KIP-848, like Kafka's own: it heartbeats, gives up what it has to, says what it has, and commits.

It reacts to each error as ConsumerHeartbeatRequestManager and ConsumerMembershipManager of the Java client do. At most
one of its heartbeats is in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.adapters import CONSUMER_GROUP_HEARTBEAT, OFFSET_COMMIT
from tests.simulation.client import Client, Surroundings, commit_body
from tests.simulation.consumer import RETRIABLE
from tests.simulation.planted.broken import Broken

E = ErrorCode
COMMIT_VERSION = 9
Partition = tuple[str, int]
NO_MEMBER_ANY_MORE = {E.unknown_member_id, E.fenced_member_epoch, E.group_id_not_found}


def id_of(topic: str) -> UUID:
    """Return the id of a topic, by which its name can be found again."""
    return UUID(int=int.from_bytes(topic.encode(), "big"))


def topic_of(topic_id: UUID) -> str:
    return topic_id.int.to_bytes(16, "big").lstrip(b"\0").decode()


class ConsumerMember(Client):
    honest = True

    def __init__(
        self, world: Surroundings, name: str, group: str, *, instance: str | None, given: Callable[[Any], None]
    ) -> None:
        """``given`` is called with this member whenever it begins to use partitions."""
        super().__init__(world, name)
        chance = world.chance
        self.group = group
        self.instance = instance
        self.rebalance_ms = chance.choice([3_000, 6_000, 15_000])
        self.heartbeat_ms = chance.choice([400, 1_000, 1_500])
        self.poll_ms = chance.choice([1_500, 3_000])
        self.assignor = chance.choice([None, None, "range", "uniform"])
        self.topics: tuple[str, ...] = ()
        self.regex = ""
        self.change_subscription()
        self.member_id = ""
        self.epoch = 0
        self.owned: frozenset[Partition] = frozenset()
        self.lost = 0
        """Heartbeats since the last one that was answered well."""
        self._given = given
        self._lives = 0
        self._goal: frozenset[Partition] | None = None
        """Assignment that it moves to, once it has given up the rest."""
        self._said: tuple[Any, ...] = ()
        """State of it that the coordinator knows: subscription, and owned partitions."""
        self._in_flight = False

    @property
    def wanted(self) -> frozenset[str]:
        matched = [topic for topic in self.world.topics if self.regex and topic.startswith(self.regex[0])]
        return frozenset((*self.topics, *matched))

    @property
    def holds(self) -> frozenset[Partition]:
        """Partitions that it uses."""
        return self.owned if self.epoch > 0 else frozenset()

    @property
    def is_settled(self) -> bool:
        return self.epoch > 0 and self._goal is None and not self.lost

    def change_subscription(self) -> None:
        chance = self.world.chance
        known = sorted(self.world.topics)
        self.topics = tuple(sorted(chance.sample(known, chance.randint(0, len(known)))))
        self.regex = chance.choice(["", "t.*", "u.*"]) if self.topics else "t.*"

    # Coming and going.

    def start(self) -> None:
        self._lives += 1
        self.member_id = f"{self.name}-{self._lives}"
        self._forget()
        self._beat()
        self.later(self.heartbeat_ms, self._beat_regularly)
        self.later(self.poll_ms, self._poll)

    def crash(self, away_ms: int) -> None:
        """SIGKILL; another process starts later."""
        self.life += 1
        self.wake()
        self._forget()
        self.later(away_ms, self.start)

    def stop(self, then_ms: int | None) -> None:
        """Close: a static member may say that it will return, another one leaves. Restarts after that time."""
        if self.epoch:
            returns = self.instance is not None and then_ms is not None and self.world.chance.random() < 0.7
            body = self._body(-2 if returns else -1)
            self.request(CONSUMER_GROUP_HEARTBEAT, 1, body, lambda response: None)
        self.life += 1
        self._forget()
        if then_ms is not None:
            self.later(then_ms, self.start)

    def _forget(self) -> None:
        self.epoch, self.owned, self._goal, self._said = 0, frozenset(), None, ()
        self._in_flight, self.lost = False, 0

    # Heartbeats.

    def _beat_regularly(self) -> None:
        self._beat()
        self.later(self.heartbeat_ms, self._beat_regularly)

    def _beat(self) -> None:
        if self._in_flight:
            return
        self._in_flight = True
        now = (self.topics, self.regex, self.owned)
        body = self._body(self.epoch)
        if not self._said or self.epoch == 0:
            body |= self._everything()
        elif now != self._said:
            body |= {"topic_partitions": _by_topic(self.owned)} if self.owned != self._said[2] else {}
            body |= {"subscribed_topic_names": [*self.topics]} if self.topics != self._said[0] else {}
            body |= {"subscribed_topic_regex": self.regex} if self.regex != self._said[1] else {}
        self.request(
            CONSUMER_GROUP_HEARTBEAT, 1, body, lambda response: self._beaten(response, now, joins=self.epoch == 0)
        )

    def _body(self, epoch: int) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": epoch,
            "instance_id": self.instance,
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": None,
        }

    def _everything(self) -> dict[str, Any]:
        return {
            "rebalance_timeout": self.rebalance_ms,
            "subscribed_topic_names": [*self.topics],
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            "topic_partitions": _by_topic(self.owned),
        }

    def _beaten(self, response: Any, said: tuple[Any, ...], *, joins: bool) -> None:
        self._in_flight = False
        if response is None or response.error_code is not E.none:
            self._failed(None if response is None else response.error_code)
            return
        if not joins and response.member_epoch < self.epoch:
            raise Broken(f"{self.name} goes back from {self.epoch} to {response}", "epochs_never_go_back")
        self.epoch, self._said, self.lost = response.member_epoch, said, 0
        if response.assignment is not None:
            self._assigned(
                frozenset(
                    (topic_of(each.topic_id), i)
                    for each in response.assignment.topic_partitions
                    for i in each.partitions
                )
            )

    def _failed(self, error: ErrorCode | None) -> None:
        self._said = ()
        self.lost += 1
        if error is None or error in RETRIABLE:
            return
        if error in NO_MEMBER_ANY_MORE:
            self.world.refused(self, error)  # type: ignore[attr-defined]
            self._forget()
        elif error in (E.unreleased_instance_id, E.fenced_instance_id):
            self.crash(self.world.chance.randint(300, 2_000))
        else:
            raise Broken(f"{self.name} gets {error}", "honest_members_are_understood")

    def _assigned(self, goal: frozenset[Partition]) -> None:
        """Give up what is not among these, which takes some time, and only then use the new ones."""
        if goal == self.owned:
            self._goal = None
            return
        begins, self._goal = self._goal is None, goal
        if begins:
            slow = self.world.chance.random() < 0.2 and self.owned - goal
            self.later(self.world.chance.choice([800, 2_500, 8_000]) if slow else 0, self._move)

    def _move(self) -> None:
        if self._goal is not None:
            self.owned, self._goal = self._goal, None
            self._given(self)
            self._beat()

    # Commits.

    def _poll(self) -> None:
        done = {partition: self.world.next_offset() for partition in sorted(self.holds)}
        if done and self._goal is None:
            body = commit_body(
                self.group, done, generation=self.epoch, member_id=self.member_id, instance=self.instance
            )
            self.request(OFFSET_COMMIT, COMMIT_VERSION, body, lambda response: None)
        self.later(self.poll_ms, self._poll)


def _by_topic(partitions: frozenset[Partition]) -> list[dict[str, Any]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [{"topic_id": id_of(topic), "partitions": indexes} for topic, indexes in topics.items()]
