"""The checker finds planted bugs: real clients, a server from a copy of the tree with the bug, a directed schedule.

The same schedule on the unmodified tree violates nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tests.chaos.checker import check
from tests.chaos.cluster import ROOT, free_ports
from tests.chaos.fleet import Fleet
from tests.chaos.history import Acked, read_history
from tests.chaos.journal import Journal
from tests.chaos.observer import Observer
from tests.chaos.plan import Plan, Worker
from tests.chaos.tests.bugs import COMMIT_BEFORE_DURABLE, EPOCH_NOT_CHECKED, Bug, copy_of_the_tree
from tests.zookeeper_fixture import eventually

pytestmark = pytest.mark.ring(name="planted")


TOPIC, GROUP = "orders", "readers"
WAIT_S = 60


class Server:
    """``tests/chaos/tests/lone_server.py`` of a tree, in a process."""

    def __init__(self, tree: Path, storage: Path, hosts: str, port: int) -> None:
        self.bootstrap = f"127.0.0.1:{port}"
        arguments = [str(storage), hosts, str(port)]
        with (storage.parent / f"server-{port}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.tests.lone_server", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=tree,
                env={**os.environ, "PYTHONPATH": str(tree)},
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "serving\n", (storage.parent / f"server-{port}.log").read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Stage:
    """One run: its folder, journals, servers and workers; :meth:`end` ends all of them."""

    topics: ClassVar[Mapping[str, int]] = {TOPIC: 2}
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {GROUP: (TOPIC,)}

    def __init__(self, folder: Path, tree: Path, hosts: str) -> None:
        self._tree, self._hosts = tree, hosts
        self._storage, self.journals = folder / "storage", folder / "journals"
        self._storage.mkdir()
        self.journals.mkdir()
        self.journal = Journal(self.journals / "run.jsonl")
        self.servers: list[Server] = []
        self._fleets: list[Fleet] = []

    def serve(self, port: int | None = None) -> Server:
        server = Server(self._tree, self._storage, self._hosts, port or free_ports(1))
        self.servers.append(server)
        return server

    def fleet(self, server: Server, *workers: Worker) -> Fleet:
        plan = Plan(seed=0, minutes=0, topics=dict(self.topics), workers=workers, faults=())
        fleet = Fleet(plan, server.bootstrap, self.journals, self.journal, 50)
        self._fleets.append(fleet)
        for worker in workers:
            fleet.start(worker.name)
        return fleet

    def observer(self, server: Server, name: str = "observer") -> Observer:
        return Observer(server.bootstrap, self.topics, self.groups, Journal(self.journals / f"{name}.jsonl"))

    def violated(self) -> set[str]:
        """Violated rules, once everything has ended."""
        for fleet in self._fleets:
            fleet.end()
        self.journal.write("phase", name="end")
        return {violation.rule for violation in check(read_history(self.journals))}

    def end(self) -> None:
        for fleet in self._fleets:
            fleet.end()
        for server in self.servers:
            server.kill()


@contextmanager
def stage(folder: Path, bug: Bug | None, hosts: str, kind: type[Stage] = Stage) -> Iterator[Stage]:
    tree = ROOT
    if bug is not None:
        tree = copy_of_the_tree(folder / "tree")
        bug.plant(tree)
    running = kind(folder, tree, hosts)
    try:
        yield running
    finally:
        running.end()


def producer(name: str) -> Worker:
    return Worker(name=name, role="producer", library="confluent", topics=(TOPIC,))


def consumer(name: str) -> Worker:
    return Worker(name=name, role="consumer", library="confluent", topics=(TOPIC,), group=GROUP)


def acknowledged(running: Stage, worker: str) -> list[Acked]:
    return [acked for acked in read_history(running.journals).acked if acked.name.startswith(f"{worker}.")]


def committed(running: Stage) -> int:
    """Return the number of records committed by acknowledged commits."""
    ends = {commit.place: commit.offset for commit in read_history(running.journals).commits if commit.acked}
    return sum(ends.values())


@pytest.mark.parametrize("bug", [None, COMMIT_BEFORE_DURABLE], ids=["sound", "planted"])
def test_a_commit_that_was_acknowledged_too_early(bug: Bug | None, tmp_path: Path, zk_hosts: str) -> None:
    """The members are killed right before their coordinator, so that no later commit hides the loss."""
    with stage(tmp_path, bug, zk_hosts) as running:
        server = running.serve()
        observer = running.observer(server)
        observer.create_topics({})
        fleet = running.fleet(server, producer("producer"), consumer("member-0"), consumer("member-1"))
        eventually(lambda: committed(running) > 100, "commits are acknowledged", within_s=WAIT_S)
        before = committed(running)
        eventually(lambda: committed(running) > before + 50, "and more of them", within_s=WAIT_S)
        fleet.kill("member-0")
        fleet.kill("member-1")
        server.kill()
        running.serve(int(server.bootstrap.rpartition(":")[2]))
        eventually(lambda: observer.has_everything(GROUP, {(TOPIC, 0): 0, (TOPIC, 1): 0}), "offsets", within_s=WAIT_S)
        fleet.leave("producer")
        eventually(fleet.gone, "the producer has its responses", within_s=WAIT_S)
        assert observer.read_logs(WAIT_S)
        observer.close()
        violated = running.violated()
        assert violated == set() if bug is None else "commits_are_kept" in violated


@pytest.mark.parametrize("bug", [None, EPOCH_NOT_CHECKED], ids=["sound", "planted"])
def test_an_actor_that_continues_after_it_was_replaced(bug: Bug | None, tmp_path: Path, zk_hosts: str) -> None:
    """Every actor twice, each copy with its own gateway and producer; the older one was paused in between.

    What a third copy finds is decisive: the first two take over from each other, since neither knows that it should
    not.
    """
    with stage(tmp_path, bug, zk_hosts) as running:
        old = running.serve()
        running.observer(old, "observer-1").create_topics({})
        running.fleet(old, producer("to-the-old"))
        eventually(lambda: len(acknowledged(running, "to-the-old")) > 100, "records are acknowledged", within_s=WAIT_S)
        old.process.send_signal(signal.SIGSTOP)
        new = running.serve()
        fleet = running.fleet(new, producer("to-the-new"))
        eventually(lambda: len(acknowledged(running, "to-the-new")) > 100, "by the new one, too", within_s=WAIT_S)
        before = len(acknowledged(running, "to-the-old"))
        old.process.send_signal(signal.SIGCONT)
        eventually(
            lambda: len(acknowledged(running, "to-the-old")) > before + 50, "the old one continues", within_s=WAIT_S
        )
        old.kill()
        fleet.leave("to-the-new")
        eventually(fleet.gone, "the producer has its responses", within_s=WAIT_S)
        new.kill()
        observer = running.observer(running.serve(), "observer-2")
        assert observer.read_logs(WAIT_S)
        observer.close()
        violated = running.violated()
        assert violated == set() if bug is None else "acknowledged_is_kept" in violated
