"""The worker processes: they are started, killed, paused, stopped in order, and restarted under a new number."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_muster.bound import bound
from tests.chaos.cluster import ROOT
from tests.chaos.journal import Journal, now_s
from tests.chaos.plan import Plan, Worker
from tests.chaos.workers.spec import Spec


class Fleet:
    """All workers of a plan. Every start and end is in the run's journal, under the process's name."""

    def __init__(self, plan: Plan, bootstrap: str, folder: Path, journal: Journal, records_per_s: int) -> None:
        self._workers: Mapping[str, Worker] = {worker.name: worker for worker in plan.workers}
        self._topics, self._bootstrap, self._folder, self._journal = plan.topics, bootstrap, folder, journal
        self._records_per_s = records_per_s
        self._starts: dict[str, int] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._leaving: dict[str, subprocess.Popen[bytes]] = {}
        self._looked_s = now_s()

    def names(self, role: str) -> list[str]:
        return [name for name, worker in self._workers.items() if worker.role == role]

    def groups(self, role: str) -> set[str]:
        """Return the groups of all workers of that role."""
        return {worker.group for worker in self._workers.values() if worker.role == role}

    def outputs(self) -> list[str]:
        """Return the topics that transformers write."""
        return sorted({topic for worker in self._workers.values() for topic in worker.outputs})

    def start(self, name: str) -> None:
        """Start another process of that worker; does nothing if one is running."""
        if name in self._running:
            return
        worker = self._workers[name]
        self._starts[name] = number = self._starts.get(name, 0) + 1
        process_name = f"{name}.{number}"
        spec = Spec(
            name=process_name,
            role=worker.role,
            library=worker.library,
            bootstrap=self._bootstrap,
            topics={topic: self._topics[topic] for topic in worker.topics},
            journal=str(self._folder / f"{process_name}.jsonl"),
            idempotent=worker.idempotent,
            records_per_s=self._records_per_s,
            group=worker.group,
            mode=worker.mode,
            strategy=worker.strategy,
            protocol=worker.protocol,
            regex=worker.regex,
            outputs={topic: self._topics[topic] for topic in worker.outputs},
            transactional_id=name,
            own_timeouts=worker.own_timeouts,
        )
        path = self._folder / f"{process_name}.spec.json"
        spec.save(path)
        with (self._folder / f"{process_name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                # SIGKILL: a worker without its run has nothing to report, and may be paused.
                bound([sys.executable, "-m", "tests.chaos.workers", str(path)], signal.SIGKILL),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
            )

    def kill(self, name: str) -> None:
        """SIGKILL."""
        if process := self._running.pop(name, None):
            died = process.poll()
            process.kill()
            process.wait()
            if died is None:
                self._journal.write("worker-ended", worker=self._process_name(name), code=None)
            else:
                self._found_ended(self._process_name(name), died)

    def pause(self, name: str, until_s: float) -> Callable[[], None]:
        """SIGSTOP. Call the returned function at that time: it resumes this process, also if it is to leave by then."""
        process = self._running.get(name)
        if process is None:
            return lambda: None
        self._journal.write("worker-paused", worker=self._process_name(name), until=until_s)
        process.send_signal(signal.SIGSTOP)
        return lambda: process.send_signal(signal.SIGCONT)

    def leave(self, name: str) -> None:
        """SIGTERM: the worker ends in order, in its own time."""
        if process := self._running.pop(name, None):
            process.send_signal(signal.SIGTERM)
            self._leaving[self._process_name(name)] = process

    def look(self) -> None:
        """Record the workers that have ended, which were alive when it was called last: a fault may take a minute.

        Those that ended by themselves are restarted.
        """
        for process_name, process in list(self._leaving.items()):
            if process.poll() is not None:
                del self._leaving[process_name]
                self._found_ended(process_name, process.returncode)
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                del self._running[name]
                self._found_ended(self._process_name(name), process.returncode)
                self.start(name)
        self._looked_s = now_s()

    def gone(self) -> bool:
        """Whether all workers that got SIGTERM have ended."""
        self.look()
        return not self._leaving

    def end(self) -> None:
        """SIGKILL the remaining ones."""
        for name in list(self._running):
            self.kill(name)
        for process_name, process in self._leaving.items():
            process.kill()
            process.wait()
            self._journal.write("worker-ended", worker=process_name, code=None)
        self._leaving.clear()

    def _found_ended(self, process_name: str, code: int) -> None:
        self._journal.write("worker-ended", worker=process_name, code=code, alive=self._looked_s)

    def _process_name(self, name: str) -> str:
        return f"{name}.{self._starts[name]}"
