"""Kafka's Java consumers in a group, with ``group.protocol=consumer`` (KIP-848)."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack

from tests.conformance.artifacts import Kafka
from tests.conformance.clients import VerifiableConsumer
from tests.muster_process import Muster
from tests.paths.sharing import share_rebalance_and_resume


def test_members_share_rebalance_and_resume(muster: Muster, release: Kafka, fresh: Callable[[str], str]) -> None:
    topic = fresh("java")

    def start(name: str) -> VerifiableConsumer:
        options = {"topic": topic, "group": topic, "group_protocol": "consumer"}
        member = VerifiableConsumer(release, muster.bootstrap, name, **options)
        running.enter_context(member)
        return member

    def leave(member: VerifiableConsumer) -> None:
        assert member.stop() == 128 + signal.SIGTERM, member
        assert member.named("shutdown_complete"), member

    with ExitStack() as running:
        share_rebalance_and_resume(muster.bootstrap, topic, start, leave)
