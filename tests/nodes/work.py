"""Real clients on a Muster of several nodes, and the command that drains a node."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.cluster.consumer_groups.groups import PARTITIONS, create, generation, until_read, working
from tests.cluster.consumer_groups.members import ConfluentMember, Producer, everything
from tests.nodes.bench import Bench

COUNT = 300
GROUPS = 2


@dataclass
class Work:
    """Clients that produce, consume and commit, and their observations so far."""

    bench: Bench
    producer: Producer
    members: list[ConfluentMember]

    def go_on(self) -> None:
        """Send more records, and wait until they are acknowledged, read and committed by every group."""
        self.producer.send(COUNT, pause_s=0.002)
        self.producer.flush()
        for group in {member.group for member in self.members}:
            until_read([member for member in self.members if member.group == group], self.producer.sent)

    def stability(self) -> object:
        """Return the state that a rebalance would change."""
        members = [(member.identity(), member.rebalances, frozenset(member.assigned)) for member in self.members]
        return members, [generation(self.bench.muster, member.group) for member in self.members]

    def check(self) -> None:
        """Each acknowledged record is there once, at its acknowledged offset; each group has read every record once."""
        records = everything(self.bench.muster.bootstrap, self.producer.topic, PARTITIONS, self.producer.sent)
        self.producer.check(records)
        assert len(records) == self.producer.sent
        for group in {member.group for member in self.members}:
            read = [record for member in self.members if member.group == group for record in member.read]
            assert len(read) == self.producer.sent


@contextmanager
def work(bench: Bench, fresh: Callable[[str], str], *, groups: int = GROUPS) -> Iterator[Work]:
    """Yield groups of two members and a producer, all started."""
    topic = fresh("t")
    create(bench.muster, topic)
    names = [fresh("g") for _ in range(groups)]
    members = [ConfluentMember(bench.muster.bootstrap, topic, name) for name in names for _ in range(2)]
    at_work = Work(bench, Producer(bench.muster.bootstrap, topic), members)
    with working(*members):
        at_work.go_on()
        yield at_work
        at_work.check()


def drain(bench: Bench, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "muster.gateway.cli.main",
        "drain",
        *arguments,
        "--storage",
        str(bench.muster.storage),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=bench.muster.environment)
