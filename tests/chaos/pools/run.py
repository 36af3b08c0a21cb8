"""The plan ``pool``: the records of a topic are handled by ``muster.pool`` while its processes are killed.

Each round writes some records and kills something, at a step or at any time: a worker, the supervisor, both, the
group's coordinator, or the driver that starts the pool. Then all records must be committed, and every partition be had
by a worker that lives. In the end, each record was handled; those that were handled twice were in a batch that a kill
interrupted; no member, no process is left; and all bytes that were fetched count under the group.
"""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import muster.pool
from muster.gateway.client.kafka.groups import members_of
from muster.gateway.client.kafka.leaders import TopicPartition
from muster.gateway.client.kafka.offsets import committed, log_offsets
from muster.gateway.client.kafka.requests import LATEST
from muster.gateway.client.pool.names import client_id
from tests.chaos.pools.check import Handled, handled, takeovers_s
from tests.chaos.pools.journal import Death
from tests.chaos.pools.steps import LOW, OF_SUPERVISOR, OF_WORKERS, Steps, start_pool
from tests.chaos.pools.watching import Watching
from tests.chaos.rounds import bytes_of, group_coordinator, kafka_of, new_muster
from tests.data.copying import kill
from tests.data.driver import Driver, DriverKilled
from tests.data.topics import produce
from tests.muster_process import Muster, eventually
from tests.ray.pool.kit import pid_of, supervisor, workers
from tests.ray_head import connected

TOPIC, GROUP = "in", "handlers"
PARTITIONS, RECORDS, MORE = 4, 400, 40
ANYWHERE = ""
KINDS = {
    "worker": (ANYWHERE, *OF_WORKERS),
    "supervisor": (ANYWHERE, "sized"),
    "worker and supervisor": (ANYWHERE, *OF_SUPERVISOR[1:]),
    "group coordinator": (ANYWHERE, *OF_WORKERS),
    "driver": (ANYWHERE,),
}
"""Victims, and the steps at which they are killed."""
_MAX_MOMENT_S, _MAX_DRIVER_S = 1.5, 4.0
"""Something is killed so long after the records were written, at most, or after a driver was started."""
_WAIT_S = 120
_ENDS_S = 30


@dataclass
class Outcome:
    """The result of a run."""

    records: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    handled: Handled = field(default_factory=lambda: Handled(frozenset(), frozenset(), frozenset()))
    bytes_of_group: int = 0
    bytes_without_group: int = 0
    members_left: int = 0
    processes_left: int = 0
    takeovers_s: list[float] = field(default_factory=list)
    """From the kill of a worker until others have its partitions."""
    not_taken_over: int = 0
    problem: str = ""
    """Why the run ended early."""

    @property
    def is_right(self) -> bool:
        return not (
            self.problem
            or self.handled.lost
            or self.handled.twice
            or self.bytes_without_group
            or self.members_left
            or self.processes_left
            or self.not_taken_over
        )

    def __str__(self) -> str:
        kills = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kills.items()))
        lines = [
            f"{self.records} records; killed: {kills}",
            f"records lost {len(self.handled.lost)}; handled twice: of batches that a kill interrupted "
            f"{len(self.handled.twice_in_flight)}, others {len(self.handled.twice)}",
            f"bytes fetched for the group {self.bytes_of_group}, without their group {self.bytes_without_group}",
            f"left: members {self.members_left}, processes {self.processes_left}",
            f"from the kill of a worker until others have its partitions: {_distribution(self.takeovers_s)}; "
            f"never {self.not_taken_over}",
            *([f"ended early: {self.problem}"] if self.problem else ()),
        ]
        return "\n".join(lines)


def _distribution(times_s: list[float]) -> str:
    if len(times_s) < 2:
        return ", ".join(f"{each:.1f} s" for each in times_s) or "no kill"
    parts = statistics.quantiles(times_s, n=20, method="inclusive")
    shown = {"min": min(times_s), "median": parts[9], "90%": parts[17], "95%": parts[18], "max": max(times_s)}
    return f"{len(times_s)} kills, " + ", ".join(f"{name} {value:.1f} s" for name, value in shown.items())


def run(
    seed: int, rounds: int, folder: Path, say: Callable[[str], None], kinds: Sequence[str] = tuple(KINDS)
) -> Outcome:
    """Run the rounds and check what came of them."""
    chance, outcome = random.Random(seed), Outcome()
    with new_muster(folder) as muster:
        muster.topic(TOPIC, partitions=PARTITIONS)
        with connected() as address:
            work = _Work(muster, address, folder, chance)
            with Watching(work.kafka, GROUP) as watching:
                try:
                    work.begin()
                    for number in range(1, rounds + 1):
                        kind = chance.choice(kinds)
                        step = chance.choice(KINDS[kind])
                        begun_s = time.monotonic()
                        work.round(kind, step)
                        at = f" at {step}" if step else ""
                        say(f"round {number} of {rounds}: {kind}{at}, {time.monotonic() - begun_s:.1f} s")
                except AssertionError as error:
                    outcome.problem = f"{kind}, {step}: {error}" if work.rounds else str(error)
                outcome.members_left = work.end()
            processes = psutil.Process().children(recursive=True)
            outcome.processes_left = work.processes_left()
        outcome.records, outcome.kills = work.records, work.kills
        history = work.steps.journals.history()
        outcome.handled = handled(history, work.ends())
        times_s = takeovers_s(history.deaths, watching.seen)
        outcome.takeovers_s = [each for each in times_s if each is not None]
        outcome.not_taken_over = times_s.count(None)
        outcome.bytes_of_group, outcome.bytes_without_group = bytes_of(muster, TOPIC, GROUP)
        processes += psutil.Process().children(recursive=True)
    outcome.processes_left += left_of(processes)
    return outcome


class _Work:
    """The pool, and what is done to it."""

    def __init__(self, muster: Muster, ray_address: str, folder: Path, chance: random.Random) -> None:
        self._muster, self._folder, self._chance = muster, folder, chance
        self._environment = {**os.environ, "RAY_ADDRESS": ray_address}
        self.kafka = kafka_of(muster)
        self.steps = Steps(folder)
        self.records = self.rounds = 0
        self.kills: Counter[str] = Counter()
        self._driver: Driver | None = None
        self._seen: set[psutil.Process] = set()

    def begin(self) -> None:
        """Start the pool."""
        self._start()
        self._until_whole()

    def round(self, kind: str, step: str) -> None:
        """Write records, kill, and wait until all of them are committed by a pool that is whole again."""
        self.rounds += 1
        self.kills[f"{kind} at {step}" if step else kind] += 1
        if kind == "driver":
            self._kill_driver()
        else:
            self._produce(RECORDS)
            time.sleep(self._chance.uniform(0, _MAX_MOMENT_S))
            self._kill(kind, step)
        self._until_whole()

    def _kill(self, kind: str, step: str) -> None:
        before = len(self.steps.journals.deaths())
        victims = [self._coordinator()] if kind == "group coordinator" else []
        count = 0
        if step:
            self.steps.arm(step, kind, victims)
            count += 1
        elif victims:
            self._note_and_kill(Death(time.monotonic(), kind, victims[0]))
            count += 1
        needs_a_death = kind == "worker and supervisor" or step == "rebalance"
        if needs_a_death or (kind == "worker" and not step):
            count += self._kill_worker()
        if kind in ("supervisor", "worker and supervisor") and not step:
            self._note_and_kill(Death(time.monotonic(), "supervisor", pid_of(supervisor(self._pool))))
            count += 1
        self._until_dead(before + count)

    def _kill_worker(self) -> int:
        """Kill a worker that runs; return 1."""
        running = eventually(lambda: workers(self._pool), bool, "a worker runs", _WAIT_S)
        slot, pid = self._chance.choice(sorted(running.items()))
        partitions = next((each.partitions for each in self._pool.status().workers if each.pid == pid), ())
        name = client_id(GROUP, self._pool.plan.token, slot)
        indices = [index for _, index in partitions]
        self._note_and_kill(Death(time.monotonic(), "worker", pid, client_id=name, partitions=indices))
        return 1

    def _note_and_kill(self, death: Death) -> None:
        self.steps.journals.note_death(death)
        kill(death.pid)

    def _until_dead(self, count: int) -> None:
        """Wait until there were so many kills; a step may need more records."""

        def look() -> int:
            if self._lag() == 0:
                self._produce(MORE)
            return len(self.steps.journals.deaths())

        eventually(look, lambda found: found >= count, "the step is reached", _WAIT_S)

    def _coordinator(self) -> int:
        return eventually(
            lambda: group_coordinator(self._muster, GROUP) or 0,
            lambda pid: pid > 0 and psutil.pid_exists(pid),
            "the group has a coordinator",
            _WAIT_S,
        )

    def _kill_driver(self) -> None:
        """Stop the pool, and kill a driver that starts it anew; at any time, so that it may have been too early."""
        self._note_processes()
        self._pool.stop()
        self._lose_driver()
        self._produce(RECORDS)
        driver = self._new_driver()
        driver.begin(start_pool, self.kafka, TOPIC, GROUP, self._folder)
        timer = threading.Timer(self._chance.uniform(0, _MAX_DRIVER_S), driver.kill)
        timer.start()
        with contextlib.suppress(DriverKilled):
            driver.result()
        timer.join()
        self._start()

    def _start(self) -> None:
        """Find the pool, or start it."""

        def start() -> muster.pool.Pool:
            with contextlib.suppress(muster.pool.PoolNotFound):
                return muster.pool.find(GROUP)
            self._driver = self._driver or self._new_driver()
            self._driver.run(start_pool, self.kafka, TOPIC, GROUP, self._folder)
            return muster.pool.find(GROUP)

        self._pool = eventually(start, lambda _: True, "the pool is started", _WAIT_S)

    def _new_driver(self) -> Driver:
        return Driver(self._environment, self._folder / "driver.log")

    def _lose_driver(self) -> None:
        if self._driver is not None:
            self._driver.kill()
            self._driver = None

    def _produce(self, count: int) -> None:
        produce(self._muster.bootstrap, TOPIC, range(self.records, self.records + count), PARTITIONS)
        self.records += count

    def ends(self) -> dict[int, int]:
        """Return the end of each partition's log."""
        partitions: list[TopicPartition] = [(TOPIC, index) for index in range(PARTITIONS)]
        with self.kafka.leaders("chaos") as leaders:
            found = log_offsets(leaders, partitions, LATEST)
        return {index: end for (_, index), end in found.items() if end is not None}

    def _lag(self) -> int:
        with self.kafka.coordinator(GROUP, "chaos") as coordinator:
            offsets = committed(coordinator, GROUP)
        return self.records - sum(each.offset for each in offsets.values())

    def _until_whole(self) -> None:
        """Wait until all records are committed, and the members are the workers, which have all partitions."""
        eventually(self._lag, lambda lag: lag == 0, "all records are committed", _WAIT_S)
        eventually(self._defects, lambda found: not found, "the pool is whole", _WAIT_S)
        self._note_processes()

    def _defects(self) -> list[str]:
        status = self._pool.status()
        prefix = client_id(GROUP, self._pool.plan.token, 0)[:-1]
        wanted = sorted(f"{prefix}{each.slot}" for each in status.workers)
        with self.kafka.coordinator(GROUP, "chaos") as coordinator:
            members = members_of(coordinator, GROUP)
        found = [f"worker {each.slot} is {each.state}" for each in status.workers if each.state != "running"]
        if len(wanted) < LOW:
            found.append(f"{len(wanted)} workers")
        if wanted != sorted(each.client_id for each in members):
            found.append(f"members {members}, workers {wanted}")
        if sum(len(each.partitions) for each in members) != PARTITIONS:
            found.append("not all partitions are owned")
        return found

    def _note_processes(self) -> None:
        """Remember the processes that the pool has now."""
        for pid in (*workers(self._pool).values(), pid_of(supervisor(self._pool))):
            with contextlib.suppress(psutil.NoSuchProcess):
                self._seen.add(psutil.Process(pid))

    def end(self) -> int:
        """Stop the pool; return how many members are left in its group."""
        self._pool.stop()
        self._lose_driver()
        with self.kafka.coordinator(GROUP, "chaos") as coordinator:
            return len(members_of(coordinator, GROUP))

    def processes_left(self) -> int:
        """Return how many processes of the pool live after its end."""
        return left_of(self._seen)


def left_of(processes: Collection[psutil.Process]) -> int:
    """Return how many of the processes do not end in time. Their pids may be those of threads of others by now."""

    def living() -> int:
        return sum(map(_lives, processes))

    with contextlib.suppress(AssertionError):
        eventually(living, lambda count: not count, "they end", _ENDS_S)
    return living()


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
