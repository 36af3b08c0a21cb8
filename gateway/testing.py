"""A running Muster for tests: ``muster up`` in a process of its own, with a storage directory that can be thrown away.

For pytest there is the fixture ``muster`` (``gateway.pytest_plugin``); everywhere else::

    with Muster(Path(directory) / "storage") as muster:
        ...muster.bootstrap...
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from actors.faults import FaultClient

START_TIMEOUT_S = 120.0
_STOP_S = 60.0
_ADMIN_S = 60.0
_LOG_LINES = 25

PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        "fault.injection.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
    }
)
"""What differs from Muster's defaults: faults may be injected, groups settle at once, and few processes do."""

# SIGTERM comes to ``muster up`` when its parent's thread that started it ends, however that went: then it stops in
# order. Armed in the child, since a preexec_fn may deadlock in a process with threads, and kept by exec.
_BECOME = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone already")
os.execv(sys.argv[2], sys.argv[2:])
"""


class MusterNotStarted(RuntimeError):
    """``muster up`` did not get ready; the message has the end of what it said."""


class Cluster:
    """A Muster that runs, and what tests do with it. Those who start it say where it is."""

    _numbers = itertools.count(1)

    @property
    def bootstrap(self) -> str:
        """For ``bootstrap.servers``: HOST:PORT of each gateway, with commas."""
        raise NotImplementedError

    @property
    def metrics_urls(self) -> tuple[str, ...]:
        """Each gateway's Prometheus metrics."""
        raise NotImplementedError

    @property
    def http_url(self) -> str:
        """The HTTP API of the first gateway, without the path."""
        return self.metrics_urls[0].removesuffix("/metrics")

    @property
    def faults(self) -> FaultClient:
        """Injects faults into this cluster, and clears them."""
        from actors.faults import FaultClient

        return FaultClient(*self.metrics_urls)

    def topic(self, name: str | None = None, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic, of a name that no other has unless one is given; its name. KafkaException if it exists."""
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        name = name or f"topic-{os.getpid()}-{next(self._numbers)}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, partitions, config=dict(config or {}))])[name].result(_ADMIN_S)
        return name


class Muster(Cluster):
    """One cluster. A context manager that starts it, and ends all of its processes however it is left."""

    def __init__(
        self,
        storage: Path,
        *,
        properties: Mapping[str, str] = MappingProxyType({}),
        gateways: int = 1,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """``properties`` of docs/configuration.md, over :data:`PROPERTIES`. Ports are free ones."""
        self.storage = Path(storage)
        self.properties: Mapping[str, str] = {**PROPERTIES, **properties}
        """What was set; everything else is as by default."""
        self.log = self.storage.parent / f"{self.storage.name}.log"
        """What ``muster up`` says. The logs of the actors are in ``storage/run/log``."""
        self._gateways = gateways
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[str] | None = None
        self._ready: dict[str, str] = {}

    @property
    def bootstrap(self) -> str:
        return self._told("bootstrap")

    @property
    def metrics_urls(self) -> tuple[str, ...]:
        return tuple(self._told("metrics").split(","))

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's connect string."""
        return self._told("zookeeper")

    def cli(self, *arguments: str) -> str:
        """What another ``muster`` command prints about this cluster. CalledProcessError with its stderr if it fails."""
        command = [*_MUSTER, *arguments, "--storage", str(self.storage)]
        return subprocess.run(command, capture_output=True, text=True, timeout=_ADMIN_S, check=True).stdout

    def start(self) -> None:
        """Returns when it serves. MusterNotStarted, after everything that was started has ended."""
        self.storage.parent.mkdir(parents=True, exist_ok=True)
        sets = [part for name, value in self.properties.items() for part in ("--set", f"{name}={value}")]
        up = [*_MUSTER, "up", "--port", "0", "--gateways", str(self._gateways), "--storage", str(self.storage), *sets]
        try:
            self._ready = self._wait(self._spawn(up))
        except BaseException:
            self.stop()
            raise

    def _spawn(self, command: list[str]) -> subprocess.Popen[str]:
        become = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                become,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,  # a Ctrl-C in the terminal is for the tests: they stop it last
            )
        return self._process

    def _wait(self, process: subprocess.Popen[str]) -> dict[str, str]:
        lines: list[str] = []
        told = threading.Event()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:  # to its end, so that nothing ever waits to be read
                if line.startswith("muster ready "):
                    lines.append(line)
                    told.set()
            told.set()

        threading.Thread(target=read, name="muster-up-stdout", daemon=True).start()
        if not told.wait(self._start_timeout_s):
            raise MusterNotStarted(self._explain(f"muster up is not ready after {self._start_timeout_s:g} s"))
        if not lines:
            raise MusterNotStarted(self._explain(f"muster up ended with exit code {process.wait(_STOP_S)}"))
        return dict(part.split("=", 1) for part in shlex.split(lines[0].removeprefix("muster ready ")))

    def _explain(self, what: str) -> str:
        tail = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n".join([f"{what}; the end of {self.log}:", *tail])

    def stop(self) -> None:
        """End every process, in order if that goes; the storage directory stays. May be called again."""
        process, self._process, self._ready = self._process, None, {}
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except BaseException:  # it hangs, or somebody who is tired of waiting presses Ctrl-C again
            _kill(process.pid)
            process.wait()
            raise

    def _told(self, what: str) -> str:
        if what not in self._ready:
            raise RuntimeError("this Muster does not run")
        return self._ready[what]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


_MUSTER = (sys.executable, "-m", "gateway.cli.main")


def _kill(pid: int) -> None:
    """SIGKILL to the process and all below it; what is started meanwhile, Muster's own watchdog finds."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
