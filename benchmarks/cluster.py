"""A whole Muster in processes of its own, and their cost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from pytest_muster.bound import bound

_ROOT = Path(__file__).parents[1]
_STOP_S = 60
_ALIVE_S = 60
_MUSTER = (sys.executable, "-m", "muster.gateway.cli.main")


class StartFailed(RuntimeError):
    """Muster did not come up; the message ends with its log."""


class Cluster:
    """``with Cluster(folder, gateways=2, properties={...}) as cluster``: started on entry, all processes ended on exit.

    With a ZooKeeper of its own, or the one at ``zookeeper`` (``host:port``).
    """

    def __init__(
        self, folder: Path, *, gateways: int, properties: dict[str, str], zookeeper: str | None = None
    ) -> None:
        self.storage = folder / "storage"
        self._ready_file = folder / "ready.json"
        self._log = folder / "muster.log"
        sets = [item for name, value in properties.items() for item in ("--set", f"{name}={value}")]
        self.program = list(_MUSTER)
        """Command that is ``muster``; may be set before the start."""
        self._arguments = [
            *("up", "--gateways", str(gateways), "--storage", str(self.storage)),
            *(() if "listeners" in properties else ("--port", "0")),
            *("--ready-file", str(self._ready_file), *sets),
            *(("--zookeeper", zookeeper) if zookeeper else ()),
        ]

    def __enter__(self) -> Cluster:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                bound([*self.program, *self._arguments]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=_ROOT,
            )
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith("muster ready "):
            self._end()
            raise StartFailed(f"muster up failed:\n{self._log.read_text()[-2000:]}")
        ready = json.loads(self._ready_file.read_text())
        self.bootstrap: list[str] = ready["bootstrap"]
        self.metrics: list[str] = ready["metrics"]
        """URL of each gateway's metrics, in the order of ``bootstrap``."""
        self.console: str | None = ready["console"]
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        """Send SIGTERM, and SIGKILL by pid to the processes that remain."""
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(self._process.pid).children(recursive=True)
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
            for process in psutil.wait_procs(family, timeout=5)[1]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self._process.wait()

    def actors(self, kind: str) -> dict[str, psutil.Process]:
        """Return the processes of the actors whose name begins with ``kind-``, by name, once all of them are alive.

        While a standby serves in an actor's place, the status still has the pid of the process that has ended.
        """
        deadline_s = time.monotonic() + _ALIVE_S
        while True:
            found = [actor for actor in self._status()["actors"] if actor["name"].startswith(f"{kind}-")]
            late = [actor["name"] for actor in found if actor["state"] != "alive"]
            if not late:
                return {actor["name"]: psutil.Process(actor["pid"]) for actor in found}
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not alive after {_ALIVE_S} s: {', '.join(late)}")

    def _status(self) -> dict[str, Any]:
        command = [*_MUSTER, "status", "--json", "--storage", str(self.storage)]
        status: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True, cwd=_ROOT).stdout)
        return status

    def family(self) -> set[int]:
        """Return the pids of all processes of this Muster."""
        return {process.pid for process in psutil.Process(self._process.pid).children(recursive=True)}

    def others(self, *known: dict[str, psutil.Process]) -> dict[str, psutil.Process]:
        """Return all other processes of this Muster: ZooKeeper, reconciler, controller, log actors and Ray's own."""
        named = {process.pid for processes in known for process in processes.values()}
        return {str(pid): psutil.Process(pid) for pid in self.family() - named}

    def keep_logs(self, folder: Path) -> None:
        """Copy the logs of all actors, and of Ray, to ``folder``, which is made anew."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.storage / "run" / "log", folder / "actors")
        for process in psutil.Process(self._process.pid).children():
            for argument in process.cmdline() if process.name() == "gcs_server" else ():
                name, _, value = argument.partition("=")
                if name == "--log_dir":
                    shutil.copytree(value, folder / "ray", ignore_dangling_symlinks=True)

    def log_lines(self, name: str) -> int:
        """Count the lines that the actor has written to its log."""
        return sum(path.read_bytes().count(b"\n") for path in (self.storage / "run" / "log").glob(f"{name}.log*"))

    def complaints(self) -> list[str]:
        """Return the warnings and errors in the logs of all actors."""
        return [
            f"{path.name}: {line}"
            for path in sorted((self.storage / "run" / "log").glob("*.log*"))
            for line in path.read_text(errors="replace").splitlines()
            if " WARNING " in line or " ERROR " in line
        ]


def cpu_s(processes: dict[str, psutil.Process]) -> float:
    """Return the processor time used, user and system, in seconds; 0 for a process that has ended."""
    used_s = 0.0
    for process in processes.values():
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used_s += times.user + times.system
    return used_s


def pss_bytes(processes: dict[str, psutil.Process]) -> int:
    """Return the processes' memory; pages that they share are split between them (proportional set size)."""
    return sum(process.memory_full_info().pss for process in processes.values())


def machine() -> dict[str, Any]:
    """Describe the machine on which the figures were measured."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "python": sys.version.split()[0],
        "load_average_1min_before": round(os.getloadavg()[0], 2),
    }
