"""The plan ``batches``: a topic is copied by ``muster.data.batches`` while its processes are killed.

Each round writes some records, lets a driver copy them to another topic and to Parquet files, and kills something: the
driver at a step or at any time, the worker of a task, the group's coordinator or that of its transactions, at a step
of the driver. In the end, every record is once in the topic, as ``read_committed`` shows it, and once in the files;
and all bytes that were fetched count under the group.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.dataset as ds

from tests.chaos.rounds import bytes_of, group_coordinator, kafka_of, new_muster, transaction_coordinator
from tests.data.copying import STEPS, copy
from tests.data.driver import Driver, DriverKilled, environment
from tests.data.topics import consume, produce
from tests.muster_process import Muster

SOURCE, TARGET, GROUP = "in", "out", "copy"
PARTITIONS, RECORDS = 3, 400
KINDS = ("driver", "driver at any time", "worker", "group coordinator", "transaction coordinator")
_MAX_LIFE_S = 3.0
"""A driver that is killed at any time lives this long at most, once it is at work."""


@dataclass
class Outcome:
    """The result of a run."""

    records: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    twice: int = 0
    lost_in_files: int = 0
    twice_in_files: int = 0
    bytes_of_group: int = 0
    bytes_without_group: int = 0

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.twice or self.lost_in_files or self.twice_in_files or self.bytes_without_group)

    def __str__(self) -> str:
        kills = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kills.items()))
        return (
            f"{self.records} records; killed: {kills}\n"
            f"topic: lost {self.lost}, twice {self.twice}; files: lost {self.lost_in_files}, "
            f"twice {self.twice_in_files}\n"
            f"bytes fetched for the group {self.bytes_of_group}, without their group {self.bytes_without_group}"
        )


def run(seed: int, rounds: int, folder: Path, say: Callable[[str], None]) -> Outcome:
    """Run the rounds and check what came of them."""
    chance, outcome = random.Random(seed), Outcome()
    with new_muster(folder) as muster:
        work = _Work(muster, folder, chance, outcome)
        muster.topic(SOURCE, partitions=PARTITIONS)
        muster.topic(TARGET, partitions=PARTITIONS + 1)
        try:
            for number in range(1, rounds + 1):
                kind = chance.choice(KINDS)
                step = work.round(kind)
                say(f"round {number} of {rounds}: {kind}{f' at {step}' if step else ''}")
            work.finish()
        finally:
            work.close()
        _check(muster, folder, outcome)
    return outcome


class _Work:
    """The driver, and what is done to it."""

    def __init__(self, muster: Muster, folder: Path, chance: random.Random, outcome: Outcome) -> None:
        self._muster, self._folder, self._chance, self._outcome = muster, folder, chance, outcome
        self._kafka = kafka_of(muster)
        self._files = folder / "files"
        self._driver: Driver | None = None

    def round(self, kind: str) -> str:
        """Write records, let them be copied, and kill. Returns the step, empty if there is none."""
        values = range(self._outcome.records, self._outcome.records + RECORDS)
        produce(self._muster.bootstrap, SOURCE, values, PARTITIONS)
        self._outcome.records += RECORDS
        self._outcome.kills[kind] += 1
        step = self._chance.choice(STEPS)
        if kind == "driver":
            self._copy(step)
            return step
        if kind == "driver at any time":
            self._copy_and_kill()
            return ""
        if kind == "worker":
            poison = self._folder / "poison"
            poison.touch()
            self._copy(poison=poison)
            return ""
        victim = (
            group_coordinator(self._muster, GROUP)
            if kind == "group coordinator"
            else transaction_coordinator(self._muster, f"muster-data-{GROUP}")
        )
        self._copy(step, victims=() if victim is None else (victim,), dies=False)
        return step

    def _copy(
        self, step: str | None = None, *, victims: tuple[int, ...] = (), poison: Path | None = None, dies: bool = True
    ) -> None:
        if not dies and not victims:  # that actor has not been started yet
            step = None
        place = None if poison is None else str(poison)
        try:
            self._running().run(copy, self._kafka, SOURCE, TARGET, GROUP, str(self._files), step, victims, place)
        except DriverKilled:
            self._lose_driver()

    def _copy_and_kill(self) -> None:
        driver = self._running()
        driver.begin(copy, self._kafka, SOURCE, TARGET, GROUP, str(self._files))
        timer = threading.Timer(self._chance.uniform(0, _MAX_LIFE_S), driver.kill)
        timer.start()
        try:
            driver.result()
        except DriverKilled:
            self._lose_driver()
        timer.join()
        self._lose_driver()

    def _running(self) -> Driver:
        if self._driver is None:
            self._driver = Driver(environment(self._muster), self._folder / "driver.log")
        return self._driver

    def _lose_driver(self) -> None:
        if self._driver is not None:
            self._driver.kill()
            self._driver = None

    def finish(self) -> None:
        """Copy what is left."""
        self._copy()

    def close(self) -> None:
        self._lose_driver()


def _check(muster: Muster, folder: Path, outcome: Outcome) -> None:
    copied = Counter(value for values in consume(muster.bootstrap, TARGET, PARTITIONS + 1) for value in values)
    table = ds.dataset(folder / "files", format="parquet").to_table()
    in_files = Counter(int(value) for value in table["value"].to_pylist())
    wanted = range(outcome.records)
    outcome.lost = sum(not copied[value] for value in wanted)
    outcome.twice = copied.total() - len(copied)
    outcome.lost_in_files = sum(not in_files[value] for value in wanted)
    outcome.twice_in_files = in_files.total() - len(in_files)
    outcome.bytes_of_group, outcome.bytes_without_group = bytes_of(muster, SOURCE, GROUP)
