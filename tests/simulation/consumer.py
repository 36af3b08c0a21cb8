"""An honest consumer, like Kafka's own: it joins, assigns as leader, heartbeats, commits what it has processed.

It reacts to each error as clients do (ConsumerCoordinator and AbstractCoordinator of the Java client), whatever the
cause. Between two joins, at most one of its JoinGroup or SyncGroup requests is in flight.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.adapters import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from muster.actors.group.codec.consumer_protocol import assigned_partitions, subscribed_topics
from tests.simulation.client import (
    AGES,
    STATIC_AGES,
    Client,
    Surroundings,
    assignment,
    commit_body,
    fetch_body,
    subscription,
)

E = ErrorCode
RETRIABLE = {E.coordinator_load_in_progress, E.coordinator_not_available, E.not_coordinator, E.unknown_server_error}


class Stage(Enum):
    AWAY = "away"
    JOINING = "joining"
    SYNCING = "syncing"
    CONSUMING = "consuming"


class Consumer(Client):
    honest = True

    def __init__(
        self,
        world: Surroundings,
        name: str,
        group: str,
        *,
        instance: str | None,
        topics: tuple[str, ...],
        protocol_type: str = "consumer",
    ) -> None:
        super().__init__(world, name)
        chance = world.chance
        self.group = group
        self.instance = instance
        self.topics = topics
        self.protocol_type = protocol_type
        self.protocols: tuple[str, ...] = chance.choice([("range", "roundrobin"), ("roundrobin", "range")])
        self.speaks = chance.choice(STATIC_AGES if instance else AGES)
        self.session_ms = chance.choice([6_000, 8_000, 10_000])
        self.rebalance_ms = chance.choice([4_000, 8_000, 15_000])
        self.heartbeat_ms = chance.choice([1_500, 2_500])
        self.poll_ms = chance.choice([1_500, 3_000])
        self.names_everybody = chance.random() < 0.5
        """Whether its assignor mentions members without partitions."""
        self.commits_late = chance.random() < 0.3
        """Whether it commits between JoinGroup and SyncGroup, as commitAsync in a callback may."""
        self.stage = Stage.AWAY
        self.member_id = ""
        self.generation = -1
        self.owned: list[tuple[str, int]] = []
        self._protocol: str | None = None
        self._round = 0

    # Coming and going.

    def start(self) -> None:
        self.join()

    def crash(self, away_ms: int, *, remember: bool) -> None:
        """SIGKILL; another process starts later, perhaps with the old member id."""
        self.life += 1
        self.wake()
        member_id = self.member_id
        self._forget()
        self.member_id = member_id if remember else ""
        self.later(away_ms, self.start)

    def stop(self, then_ms: int | None) -> None:
        """Close: dynamic members leave the group, static ones do not. Restarts after that time, None: never."""
        if self.instance is None and self.member_id:
            left = {"member_id": self.member_id, "group_instance_id": None, "reason": "closed"}
            body = {"group_id": self.group, "member_id": self.member_id, "members": [left]}
            self.request(LEAVE_GROUP, self.speaks.leave, body, lambda response: None)
        self.life += 1
        self._forget()
        if then_ms is not None:
            self.later(then_ms, self.start)

    def _forget(self) -> None:
        self._round += 1
        self.stage, self.member_id = Stage.AWAY, ""
        self.generation, self.owned = -1, []

    # Joining.

    def join(self) -> None:
        self._round += 1
        self.stage = Stage.JOINING
        self.owned = self._kept()
        metadata = self._metadata()
        body = {
            "group_id": self.group,
            "session_timeout": self.session_ms,
            "rebalance_timeout": self.rebalance_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocols": [{"name": name, "metadata": metadata} for name in self.protocols],
        }
        self._request_in_round(JOIN_GROUP, self.speaks.join, body, self._joined, self.rebalance_ms + 5_000)

    def _kept(self) -> list[tuple[str, int]]:
        """Return the partitions that it has while it joins. An eager consumer gives up all of them."""
        return []

    def _metadata(self) -> bytes:
        return subscription(self.topics)

    def _joined(self, response: Any) -> None:
        if response is None:
            self.join()
        elif response.error_code is E.none:
            self.member_id, self.generation = response.member_id, response.generation_id
            self._protocol = response.protocol_name
            self._sync(response)
        elif response.error_code is E.member_id_required:
            self.member_id = response.member_id
            self.join()
        else:
            self._refused(response.error_code)

    def _sync(self, joined: Any) -> None:
        self.stage = Stage.SYNCING
        if self.commits_late:
            late = {(self.topics[0], 0): self.world.next_offset()}
            body = commit_body(
                self.group, late, generation=self.generation, member_id=self.member_id, instance=self.instance
            )
            self.request(OFFSET_COMMIT, self.speaks.commit, body, lambda response: None)
        leads = joined.leader == self.member_id and not getattr(joined, "skip_assignment", False)
        shares = self._assign(joined.members) if leads else {}
        body = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": self.protocol_type,
            "protocol_name": self._protocol,
            "assignments": [{"member_id": member_id, "assignment": share} for member_id, share in shares.items()],
        }
        self._request_in_round(SYNC_GROUP, self.speaks.sync, body, self._synced, self.rebalance_ms + 5_000)
        self._heartbeat_later()

    def _assign(self, members: Any) -> dict[str, bytes]:
        """Each partition to one of the members that want its topic, in turn; unreadable subscriptions want nothing."""
        wishes = {member.member_id: subscribed_topics(member.metadata) or frozenset() for member in members}
        shares: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in sorted(wishes)}
        turn = self.generation
        for topic, partitions in sorted(self.world.topics.items()):
            takers = [member_id for member_id in shares if topic in wishes[member_id]]
            for partition in range(partitions if takers else 0):
                shares[takers[turn % len(takers)]].append((topic, partition))
                turn += 1
        return {member_id: assignment(share) for member_id, share in shares.items() if share or self.names_everybody}

    def _synced(self, response: Any) -> None:
        if response is None:
            self.join()
        elif response.error_code is E.none:
            self.stage = Stage.CONSUMING
            self.owned = sorted(assigned_partitions(response.assignment) or ())
            self._fetch_positions()
            self._poll_later()
        else:
            self._refused(response.error_code)

    # Consuming.

    def _fetch_positions(self) -> None:
        if self.owned:
            version = self.speaks.fetch
            body = fetch_body(version, self.group, self.owned, stable=self.world.chance.random() < 0.5)
            self._request_in_round(OFFSET_FETCH, version, body, lambda response: None)

    def _poll_later(self) -> None:
        self._later_in_round(self.poll_ms, self._poll)

    def _poll(self) -> None:
        if self.owned:
            self._request_in_round(OFFSET_COMMIT, self.speaks.commit, self._commit(), self._committed)
        self._poll_later()

    def _commit(self) -> dict[str, Any]:
        chance = self.world.chance
        done = {partition: self.world.next_offset() for partition in self.owned if chance.random() < 0.6}
        done = done or {self.owned[0]: self.world.next_offset()}
        return commit_body(
            self.group, done, generation=self.generation, member_id=self.member_id, instance=self.instance
        )

    def _committed(self, response: Any) -> None:
        if response is None:
            return
        errors = {partition.error_code for topic in response.topics for partition in topic.partitions}
        for error in sorted(errors - RETRIABLE - {E.none, E.rebalance_in_progress}):
            self._refused(error)
            return

    def _heartbeat_later(self) -> None:
        self._later_in_round(self.heartbeat_ms, self._heartbeat)

    def _heartbeat(self) -> None:
        body = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }
        self._request_in_round(HEARTBEAT, self.speaks.heartbeat, body, self._beaten)
        self._heartbeat_later()

    def _beaten(self, response: Any) -> None:
        if response is None or response.error_code in RETRIABLE or response.error_code is E.none:
            return
        if response.error_code is E.rebalance_in_progress and self.owned and self.world.chance.random() < 0.5:
            self._commit_then_join()
        else:
            self._refused(response.error_code)

    def _commit_then_join(self) -> None:
        """Like a consumer with enable.auto.commit: commit what was processed before the partitions are revoked."""
        self._round += 1
        self._request_in_round(OFFSET_COMMIT, self.speaks.commit, self._commit(), lambda response: self.join(), 1_000)

    # Errors.

    def _refused(self, error: ErrorCode) -> None:
        """Rejoin in the way that the error requires."""
        self._round += 1
        self.stage = Stage.JOINING
        self.generation, self.owned = -1, []
        wait_ms = 0
        if error in (E.unknown_member_id, E.fenced_instance_id, E.group_max_size_reached):
            self.member_id = ""
        if error in (E.fenced_instance_id, E.group_max_size_reached, E.inconsistent_group_protocol):
            wait_ms = self.world.chance.randint(500, 3_000)
        elif error in RETRIABLE:
            wait_ms = self.world.chance.randint(50, 300)
        self._later_in_round(wait_ms, self.join)

    def _request_in_round(
        self, api_key: int, version: int, body: dict[str, Any], then: Any, timeout_ms: int = 3_000
    ) -> None:
        sent_in = self._round
        self.request(
            api_key, version, body, lambda response: then(response) if sent_in == self._round else None, timeout_ms
        )

    def _later_in_round(self, ms: int, do: Any) -> None:
        planned_in = self._round
        self.later(ms, lambda: do() if planned_in == self._round else None)
