"""Executes the plan: signals to processes, limits on their files, and the server's own fault injection."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psutil

from pytest_muster import FaultClient, FaultError
from tests.chaos import processes
from tests.chaos.cluster import Cluster
from tests.chaos.fleet import Fleet
from tests.chaos.journal import Journal, now_s
from tests.chaos.plan import Fault

_TRIES, _REQUEST_TIMEOUT_S = 3, 3.0


class NobodyThere(RuntimeError):
    """The target of a fault is not running at the moment."""


class Harm:
    """Makes faults and ends them; call :meth:`tick` often."""

    def __init__(self, cluster: Cluster, fleet: Fleet, journal: Journal) -> None:
        self._cluster, self._fleet, self._journal = cluster, fleet, journal
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.down_s = 0.0
        """Total time without the cluster."""

    def do(self, fault: Fault) -> None:
        """Make the fault; if that fails, the failure is recorded and the run continues."""
        begin_s, failed = now_s(), ""
        try:
            self._make(fault)
        except (NobodyThere, FaultError, psutil.Error) as error:
            failed = f"{type(error).__name__}: {error}"[:200]
        row = {"kind": fault.kind, "target": fault.target, "fields": fault.fields, "for": fault.for_s}
        self._journal.write("fault", **row, begin=begin_s, failed=failed)

    def tick(self) -> None:
        """End the faults whose time has passed."""
        while self._later and self._later[0][0] <= time.monotonic():
            heapq.heappop(self._later)[2]()

    def end_all(self) -> None:
        """End all faults that still last, including those in the server."""
        while self._later:
            heapq.heappop(self._later)[2]()
        with suppress(FaultError):
            self._inject(lambda client: client.clear())

    def _make(self, fault: Fault) -> None:
        match fault.kind:
            case "kill":
                for process in self._processes(fault.target):
                    process.kill()
            case "pause" | "zookeeper":
                self._pause(self._processes(fault.target), fault.for_s)
            case "disk":
                self._fill_disk(self._processes(fault.target), fault.for_s)
            case "slow":
                names = self._names(fault.target)
                fields: dict[str, Any] = {
                    "action": "slow",
                    "actor": names[0],
                    "expires_ms": int(fault.for_s * 1000),
                    **fault.fields,
                }
                self._inject(lambda client: client.inject(fields))
            case "request":
                fields = {**fault.fields, "expires_ms": int(fault.for_s * 1000)}
                self._inject(lambda client: client.inject(fields))
            case "everything":
                self._restart_everything()
            case "client-kill":
                self._fleet.kill(fault.target)
                self._after(fault.for_s, lambda: self._fleet.start(fault.target))
            case "client-leave":
                self._fleet.leave(fault.target)
                self._after(fault.for_s, lambda: self._fleet.start(fault.target))
            case "client-pause":
                self._after(fault.for_s, self._fleet.pause(fault.target, now_s() + fault.for_s))
            case kind:
                raise ValueError(kind)

    def _names(self, target: str) -> list[str]:
        """Return the running actors of that name or kind."""
        running = processes.actors(self._cluster.pid)
        names = [target] if target in running else sorted(name for name in running if name.startswith(f"{target}-"))
        if not names:
            raise NobodyThere(target)
        return names

    def _processes(self, target: str) -> list[psutil.Process]:
        if target == "zookeeper":
            found = processes.zookeeper(self._cluster.pid)
        else:
            found = processes.actors(self._cluster.pid).get(self._names(target)[0], [])
        if not found:  # it may have ended between two checks
            raise NobodyThere(target)
        return found

    def _pause(self, targets: list[psutil.Process], for_s: float) -> None:
        for process in targets:
            process.suspend()
            self._after(for_s, partial(_quietly, process.resume))

    def _fill_disk(self, targets: list[psutil.Process], for_s: float) -> None:
        """No file may grow: each write of the process fails with EFBIG, as with ENOSPC on a full disk."""
        for process in targets:
            before = process.rlimit(psutil.RLIMIT_FSIZE)
            process.rlimit(psutil.RLIMIT_FSIZE, (1, before[1]))
            self._after(for_s, partial(_quietly, process.rlimit, psutil.RLIMIT_FSIZE, before))

    def _restart_everything(self) -> None:
        since_s = now_s()
        self._cluster.kill_everything()
        self._cluster.start()
        self._journal.write("down", since=since_s)
        self.down_s += now_s() - since_s

    def _inject(self, what: Callable[[FaultClient], object]) -> None:
        """Call any gateway that answers. Raises FaultError if none does."""
        last: FaultError | None = None
        for url in self._cluster.http * _TRIES:
            self.tick()  # what is paused meanwhile may be what no gateway can do without
            try:
                what(FaultClient(url, timeout_s=_REQUEST_TIMEOUT_S))
                return
            except FaultError as error:
                last = error
        assert last is not None
        raise last

    def _after(self, delay_s: float, then: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + delay_s, next(self._numbers), then))


def _quietly(call: Callable[..., object], *arguments: object) -> None:
    """Call, although the process may have ended."""
    with suppress(psutil.Error):
        call(*arguments)
