"""kafkajs in a group."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tests.conformance.artifacts import KafkaJs
from tests.conformance.clients import KafkaJsMember
from tests.muster_process import Muster
from tests.paths.sharing import share_rebalance_and_resume


def test_members_share_rebalance_and_resume(
    muster: Muster, installed_kafkajs: KafkaJs, fresh: Callable[[str], str]
) -> None:
    topic = fresh("kafkajs")

    def start(name: str) -> KafkaJsMember:
        member = KafkaJsMember(installed_kafkajs, muster.bootstrap, name, topic=topic, group=topic)
        running.enter_context(member)
        return member

    def leave(member: KafkaJsMember) -> None:
        assert member.stop() == 0, member

    with ExitStack() as running:
        share_rebalance_and_resume(muster.bootstrap, topic, start, leave)
