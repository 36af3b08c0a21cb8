"""A program that reads, transforms and writes in transactions, while the actors that it needs are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from muster.placement.hashing import partition_for
from tests.cluster.consumer_groups.groups import PARTITIONS, create
from tests.cluster.consumer_groups.transactional import Program, end, read
from tests.muster_process import Muster, eventually

pytestmark = pytest.mark.ring(name="failover")

KILLS, BETWEEN = 3, 25
"""How often an actor is killed, and how many transactions are committed before each."""
TRANSACTION_PARTITIONS = 4


@pytest.fixture
def program(muster: Muster, fresh: Callable[[str], str]) -> Iterator[Program]:
    topic = fresh("topic")
    create(muster, topic)
    with Program(muster.bootstrap, topic, fresh("group"), fresh("txn")) as running:
        running.until(BETWEEN)
        yield running


def victims(kind: str, program: Program) -> str:
    match kind:
        case "transactions":
            return f"transactions-{partition_for(program.id, TRANSACTION_PARTITIONS)}"
        case "offsets":
            return f"offsets-{partition_for(program.group, 50)}"
        case "log":
            return "log-0"
    return "gateway-1"


@pytest.mark.parametrize("kind", ["transactions", "offsets", "log", "gateway"])
def test_everything_is_there_once(muster: Muster, program: Program, kind: str) -> None:
    actor = victims(kind, program)
    for kill in range(KILLS):
        pid = muster.kill_actor(actor)
        program.until((kill + 2) * BETWEEN)
        muster.until_back(actor, pid)
    program.__exit__()
    total = Program(muster.bootstrap, program.topic, program.group, program.id).committed()
    assert total >= program.done
    for partition in range(PARTITIONS):
        assert read(muster, program.topic, partition) == [*range(total)]
    for partition in range(PARTITIONS):
        ends = lambda: {end(muster, program.topic, partition, level) for level in ("committed", "uncommitted")}  # noqa: B023, E731
        eventually(ends, lambda found: len(found) == 1, "no transaction is left open")
