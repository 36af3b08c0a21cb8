"""Each actor is killed with SIGKILL while a group consumes; its members and its producer do not notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import ConsumerGroupState

from tests.cluster.consumer_groups.groups import describe, sending
from tests.conformance.topics import commit, committed
from tests.nodes.bench import Bench
from tests.nodes.work import Work, work
from tests.paths.names import GROUPS_COORDINATOR

PAUSE_S = 0.01
"""Between two records during a kill."""


@pytest.fixture(scope="module")
def clients(on_nodes: Bench, fresh: Callable[[str], str]) -> Iterator[Work]:
    on_nodes.until_settled()
    with work(on_nodes, fresh, groups=1) as started:
        yield started


def near_the_group(bench: Bench, kind: str) -> str:
    """Return the gateway, or the standby, of the node with the group's coordinator."""
    homes = bench.until_settled()
    return next(
        name for name, home in homes.items() if name.startswith(f"{kind}-") and home == homes[GROUPS_COORDINATOR]
    )


@pytest.mark.parametrize("victim", ["controller", "gateway", GROUPS_COORDINATOR, "log-0", "reconciler", "standby"])
def test_clients_do_not_notice_a_kill(on_nodes: Bench, clients: Work, fresh: Callable[[str], str], victim: str) -> None:
    """``log-0`` has every second partition of each topic. The commits of a group without members show what is lost."""
    muster, group = on_nodes.muster, clients.members[0].group
    idle, kept = fresh("idle"), {(clients.producer.topic, partition): partition + 1 for partition in range(3)}
    commit(muster.bootstrap, idle, kept)
    before = clients.stability()
    actor = near_the_group(on_nodes, victim) if victim in ("gateway", "standby") else victim
    with sending(clients.producer, PAUSE_S):
        pid = muster.kill_actor(actor)
        muster.until_back(actor, pid)
        on_nodes.until_settled()
    clients.go_on()
    assert committed(muster.bootstrap, idle) == kept
    assert clients.stability() == before
    described = describe(muster, group)
    assert described.state is ConsumerGroupState.STABLE
    assert {(member.member_id,) for member in described.members} == {member.identity() for member in clients.members}
    clients.check()
