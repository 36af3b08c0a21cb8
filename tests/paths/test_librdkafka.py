"""librdkafka in a group, by confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tests.cluster.consumer_groups.members import ConfluentMember
from tests.muster_process import Muster
from tests.paths.sharing import share_rebalance_and_resume


class Member:
    """A :class:`ConfluentMember` as a reader of :mod:`tests.paths.sharing`."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        self._member = ConfluentMember(bootstrap, topic, topic, **{"client.id": name, "heartbeat.interval.ms": 500})
        self._member.start()

    def assigned(self) -> set[tuple[str, int]]:
        return {(self._member.topic, partition) for partition in self._member.assigned}

    def values(self) -> list[bytes]:
        return self._member.values()

    def begin_to_leave(self) -> None:
        self._member.begin_to_leave()

    def leave(self) -> None:
        self._member.leave()


def test_members_share_rebalance_and_resume(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic = fresh("librdkafka")

    def start(name: str) -> Member:
        member = Member(muster.bootstrap, topic, name)
        running.callback(member.begin_to_leave)
        return member

    with ExitStack() as running:
        share_rebalance_and_resume(muster.bootstrap, topic, start, Member.leave)
