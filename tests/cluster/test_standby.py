"""A standby serves for a dead coordinator: after every further death, a group keeps generation, members and commits."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import psutil
import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.hashing import partition_for
from muster.placement.view import Topic
from tests.cluster.consumer_groups.groups import WAIT_S, create
from tests.gateway.group_client import DESCRIBE_GROUPS, FIND_COORDINATOR, HEARTBEAT, UNKNOWN_ID, Member
from tests.gateway.serving import Client
from tests.muster_process import Muster, eventually

pytestmark = pytest.mark.ring(name="failover")

RETRIABLE = {
    ErrorCode.none,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
}
_SESSION_MS = 600_000
_BY_NAME = 8
"""OffsetCommit and OffsetFetch of that version name topics; heartbeats are as in the latest version."""


class Kept:
    """The only member of a group, which must not lose anything. ``topic`` exists, and has partition 0."""

    def __init__(self, muster: Muster, group: str, topic: str) -> None:
        self.muster = muster
        self.actor = f"offsets-{partition_for(group, 50)}"
        self.offset = 0
        self._topic = Topic(name=topic, topic_id=UNKNOWN_ID, partitions=1)
        self._member = Member(Client(int(muster.ready["bootstrap"][0].rpartition(":")[2])), group, _BY_NAME)
        eventually(self._find, lambda error: error is ErrorCode.none, f"{self.actor} starts", WAIT_S)
        self._member.join(session_timeout_ms=_SESSION_MS)
        assert self._member.sync({self._member.id: b"mine"}).error_code is ErrorCode.none
        self.commit()

    def _find(self) -> ErrorCode:
        response = self._member.client.exchange(
            FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [self._member.group]}
        )
        error: ErrorCode = response.coordinators[0].error_code
        return error

    def commit(self) -> None:
        """Commit a higher offset; returns once it is acknowledged."""

        def acknowledged() -> bool:
            ((_, _, error),) = self._member.commit((self._topic, 0, self.offset + 1))
            assert error in RETRIABLE
            return error is ErrorCode.none

        eventually(acknowledged, bool, "a commit", WAIT_S)
        self.offset += 1

    def until_served(self) -> None:
        """Until a heartbeat of another generation is refused, which only a coordinator does."""

        def refused() -> bool:
            me = {"member_id": self._member.id, "generation_id": self._member.generation + 1}
            error = self._member.exchange(HEARTBEAT, **me, group_instance_id=None).error_code
            assert error in RETRIABLE | {ErrorCode.illegal_generation}
            return bool(error is ErrorCode.illegal_generation)

        eventually(refused, bool, f"{self.actor} is served", WAIT_S)

    def check(self) -> None:
        """Everything is unchanged, according to the coordinator, which may change during the requests."""
        self.until_served()
        eventually(self._kept, bool, "the group is as it was", WAIT_S)

    def _kept(self) -> bool:
        error = self._member.heartbeat()
        assert error in RETRIABLE
        (group,) = self._member.client.exchange(
            DESCRIBE_GROUPS, 5, {"groups": [self._member.group], "include_authorized_operations": False}
        ).groups
        ((_, offset, _, fetched),) = self._member.committed([self._topic])
        if {error, group.error_code, fetched} != {ErrorCode.none}:
            return False
        assert (group.group_state, [each.member_id for each in group.members]) == ("Stable", [self._member.id])
        assert group.members[0].member_assignment == b"mine"
        assert offset == self.offset
        return True


@pytest.fixture
def kept(muster: Muster, fresh: Callable[[str], str]) -> Iterator[Kept]:
    topic = fresh("standby")
    create(muster, topic)
    muster.until_all_serve()  # those of earlier tests, too: a coordinator that is handed over refuses to sync
    yield Kept(muster, fresh("kept"), topic)
    muster.until_all_serve()


def standby_of(muster: Muster) -> dict[str, object]:
    return muster.actors()["standby-1"]


def times_taken_over(muster: Muster, actor: str) -> int:
    """How often a standby has served in place of the actor."""
    logs = (muster.storage / "run" / "log").glob("standby-1.log*")
    return sum(log.read_text().count(f"{actor}: epoch ") for log in logs)


def until_taken_over(muster: Muster, actor: str, before: int) -> None:
    eventually(
        lambda: times_taken_over(muster, actor),
        lambda times: times > before,
        f"a standby serves in place of {actor}",
        WAIT_S,
    )


def test_a_standby_serves_until_the_actor_is_back(muster: Muster, kept: Kept) -> None:
    before = times_taken_over(muster, kept.actor)
    pid = muster.kill_actor(kept.actor)
    kept.check()
    kept.commit()
    until_taken_over(muster, kept.actor, before)
    back = eventually(
        lambda: muster.actors()[kept.actor],
        lambda actor: actor["state"] == "alive" and actor["pid"] != pid and actor["stand_in"] is None,
        "it serves itself",
        WAIT_S,
    )
    kept.check()
    kept.commit()
    os.kill(back["pid"], signal.SIGKILL)
    kept.check()


@pytest.mark.parametrize("next_victim", ["standby-1", "controller"])
def test_who_stands_in_or_the_controller_dies_meanwhile(muster: Muster, kept: Kept, next_victim: str) -> None:
    actors = muster.actors()
    before = times_taken_over(muster, kept.actor)
    os.kill(actors[kept.actor]["pid"], signal.SIGKILL)
    until_taken_over(muster, kept.actor, before)
    os.kill(actors[next_victim]["pid"], signal.SIGKILL)
    kept.commit()
    kept.check()
    muster.until_back(kept.actor, actors[kept.actor]["pid"])
    kept.commit()
    kept.check()


def test_an_actor_that_hangs_is_replaced(muster: Muster, kept: Kept) -> None:
    """Longer than actor.liveness.timeout.ms: then a standby serves, and the paused process is ended."""
    pid = muster.actors()[kept.actor]["pid"]
    process = psutil.Process(pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        kept.commit()
        kept.check()
        eventually(
            process.is_running,
            lambda running: not running or process.status() == psutil.STATUS_ZOMBIE,
            "its end",
            WAIT_S,
        )
    finally:
        if process.is_running():
            os.kill(pid, signal.SIGCONT)
    muster.until_back(kept.actor, pid)
    kept.check()
