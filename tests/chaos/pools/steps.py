"""Code that runs in a pool's processes: its handler, and the steps at which a process is killed.

A step is armed with a file; the first process that reaches it takes the file away, and kills itself or the victims
that the file names.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import muster.pool
from muster.gateway.client.cluster import Cluster
from tests.chaos.pools.journal import Death, Journals
from tests.data.copying import kill

if TYPE_CHECKING:
    import pyarrow as pa

OF_WORKERS = ("entered", "returned", "rebalance")
"""Steps of a worker: its handler is entered; has returned, and its offsets are not committed; partitions come or go."""
OF_SUPERVISOR = ("sized", "started", "evicting")
"""Steps of the supervisor: it has decided how many workers there should be; has started the first of those that are
missing; is about to remove the member of a dead one."""
RECORD_S = 0.005
"""Time to handle a record."""
LOW, HIGH = 2, 3
_TARGET_S, _START_S, _SHRINK_S = 1.5, 3.0, 6.0
_SESSION_MS = 300_000
"""A member that is left behind stays in the group for the rest of its round."""


class Steps:
    """Steps that are armed, as files in a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.journals = Journals(folder / "journals")

    def arm(self, step: str, kind: str = "", victims: Collection[int] = ()) -> None:
        """Let the next process at the step kill the victims, which are of that kind; or itself, if there are none."""
        draft = self._folder / "draft"
        draft.write_text(json.dumps({"kind": kind, "victims": list(victims)}))
        draft.rename(self._file(step))

    def disarm(self, step: str) -> bool:
        """Return whether it was still armed."""
        try:
            self._file(step).unlink()
        except FileNotFoundError:
            return False
        return True

    def reach(self, step: str, kind: str, client_id: str = "", partitions: Sequence[int] = ()) -> None:
        """Say that this process, of that kind, is at the step."""
        taken = self._folder / f"taken-{os.getpid()}"
        try:
            self._file(step).rename(taken)
        except FileNotFoundError:
            return
        order = json.loads(taken.read_text())
        for pid in order["victims"]:
            self.journals.note_death(Death(time.monotonic(), order["kind"], pid, step))
            kill(pid)
        if not order["victims"]:
            self.journals.note_death(Death(time.monotonic(), kind, os.getpid(), step, client_id, partitions))
            kill(os.getpid())

    def _file(self, step: str) -> Path:
        return self._folder / f"armed-{step}"


class Handling:
    """The handler of one worker. It also reports what the worker's loop does."""

    def __init__(self, folder: Path) -> None:
        self._steps = Steps(folder)
        self._loop: Any = None
        self._watch(import_module("muster.gateway.client.consuming.loop").Loop)
        self._watch_commits(import_module("muster.gateway.client.consuming.assignment").Assignment)

    def __call__(self, table: pa.Table) -> None:
        """Write which records there are; take the time that they need; write that they are handled."""
        offsets: dict[int, list[int]] = {}
        for partition, offset in zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True):
            offsets.setdefault(partition, []).append(offset)
        self._steps.journals.write({"entered_s": time.monotonic(), "offsets": offsets})
        self._reach("entered")
        time.sleep(RECORD_S * table.num_rows)
        self._steps.journals.write({"handled_s": time.monotonic()})

    def _watch(self, kind: Any) -> None:
        commit, on_assign, on_revoke = kind._commit, kind._on_assign, kind._on_revoke

        def committing(loop: Any) -> None:
            if loop._assignment.to_commit():
                self._reach("returned")
            commit(loop)

        def assigned(loop: Any, consumer: Any, partitions: Any) -> None:
            on_assign(loop, consumer, partitions)
            self._loop = loop
            self._reach("rebalance")

        def revoked(loop: Any, consumer: Any, partitions: Any) -> None:
            self._reach("rebalance")
            on_revoke(loop, consumer, partitions)

        kind._commit, kind._on_assign, kind._on_revoke = committing, assigned, revoked

    def _watch_commits(self, kind: Any) -> None:
        note_committed = kind.note_committed

        def noting(assignment: Any, offsets: Any) -> None:
            note_committed(assignment, offsets)
            accepted = {partition: offset for (_, partition), offset in offsets.items()}
            self._steps.journals.write({"committed_s": time.monotonic(), "offsets": accepted})

        kind.note_committed = noting

    def _reach(self, step: str) -> None:
        client_id = "" if self._loop is None else self._loop._client_id
        partitions = () if self._loop is None else [partition for _, partition in self._loop.partitions]
        self._steps.reach(step, "worker", client_id, partitions)


def handler(folder: Path) -> type:
    """Return the handler of the pool, a class."""

    class OneWorker(Handling):
        def __init__(self) -> None:
            super().__init__(folder)

    return OneWorker


class Sizing(muster.pool.Sizing):
    """Reports the steps of the supervisor, as soon as it is unpickled there.

    There workers that were killed are replaced at once, as if they had lived for long: the pool would take so many
    deaths for a handler that kills its process.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(LOW, HIGH, _TARGET_S, _START_S, idle_s=_SHRINK_S, down_s=_SHRINK_S)
        self._folder, self._steps = folder, Steps(folder)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._steps = steps = Steps(self._folder)
        choosing: Any = import_module("muster.gateway.client.pool.choosing")
        choosing._STABLE_S = 0.0
        crew: Any = import_module("muster.gateway.client.pool.crew").Crew
        supervising: Any = import_module("muster.gateway.client.pool.supervisor")
        start, evict = crew.start, supervising.evict

        def starting(its: Any, slot: int) -> None:
            start(its, slot)
            steps.reach("started", "supervisor")

        def evicting(coordinator: Any, group: str, members: Collection[Any]) -> int:
            if members:
                steps.reach("evicting", "supervisor")
            removed: int = evict(coordinator, group, members)
            return removed

        crew.start, supervising.evict = starting, evicting

    def look(self, now_s: float, rows: Sequence[muster.pool.PartitionLag], members: int) -> int:
        size = super().look(now_s, rows, members)
        self._steps.reach("sized", "supervisor")
        return size


def start_pool(kafka: Cluster, topic: str, group: str, folder: Path) -> None:
    """Start the pool, as a driver does."""
    muster.pool.start(
        handler(folder),
        topic,
        group=group,
        cluster=kafka,
        max_records=25,
        ray_actor_options={"num_cpus": 0.1},
        consumer_config={"session.timeout.ms": _SESSION_MS},
        sizing=Sizing(folder),
    )
