"""librdkafka in a group, by confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable

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

    def leave(self) -> None:
        self._member.leave()


def test_members_share_rebalance_and_resume(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic = fresh("librdkafka")
    start = lambda name: Member(muster.bootstrap, topic, name)  # noqa: E731
    share_rebalance_and_resume(muster.bootstrap, topic, start, Member.leave)
