"""``muster up`` of a source tree, on fixed ports, in its own folder; killed and restarted."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil

from pytest_muster.bound import bound
from tests.chaos import processes
from tests.object_storage.faulty import Fault, faulty
from tests.object_storage.seaweedfs import seaweedfs

ROOT = Path(__file__).parents[2]
_STOP_S = 60.0
_MUSTER = (sys.executable, "-m", "muster.gateway.cli.main")


class StartFailed(RuntimeError):
    """Muster did not start; the message ends with its log."""


class Cluster:
    """``with Cluster(folder, gateways=3, properties={...}) as cluster``: serves inside, and leaves nothing behind."""

    def __init__(
        self,
        folder: Path,
        *,
        gateways: int,
        properties: dict[str, str],
        tree: Path = ROOT,
        bucket_seed: int | None = None,
    ) -> None:
        """``tree``: the checkout from which Muster runs. ``bucket_seed``: it lives on a bucket with such faults."""
        self.storage = folder / "storage"
        self._folder = folder
        self._bucket_seed = bucket_seed
        self._bucket = ExitStack()
        self._bucket_environment: dict[str, str] = {}
        self.bucket_faults: list[Fault] = []
        """Faults that requests to the bucket met so far."""
        self._tree = tree
        self._ready_file, self._log = folder / "ready.json", folder / "muster.log"
        port = free_ports(2 * gateways)
        self.bootstrap = ",".join(f"127.0.0.1:{port + number}" for number in range(gateways))
        self.http = [f"http://127.0.0.1:{port + gateways + number}" for number in range(gateways)]
        sets = {**properties, "metrics.port": str(port + gateways)}
        if bucket_seed is not None:
            sets |= {"storage.path": "s3://muster-chaos/cluster", "storage.object.cache.path": str(self.storage)}
        storage = [] if bucket_seed is not None else ["--storage", str(self.storage)]
        self._command = [
            *(*_MUSTER, "up", "--port", str(port), "--gateways", str(gateways), *storage),
            *("--ready-file", str(self._ready_file)),
            *(item for name, value in sets.items() for item in ("--set", f"{name}={value}")),
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Start, and wait until it serves. StartFailed."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                bound(self._command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._tree,
                env=self._environment(),
            )
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith("muster ready "):
            self.end()
            raise StartFailed(f"muster up failed:\n{self._log.read_text(errors='replace')[-2000:]}")

    def kill_everything(self) -> None:
        """SIGKILL ``muster up`` and all its descendants at once."""
        members = processes.family(self.pid)
        for process in members:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(_STOP_S)
        psutil.wait_procs(members[1:], timeout=_STOP_S)
        if self._bucket_seed is not None:  # as on another host: ZooKeeper's data are all that comes back
            shutil.rmtree(self.storage / "logs")

    def status(self) -> dict[str, Any]:
        """Output of ``muster status``."""
        command = [*_MUSTER, "status", "--json", "--storage", str(self.storage)]
        done = subprocess.run(
            command, capture_output=True, check=True, cwd=self._tree, env=self._environment(), timeout=_STOP_S
        )
        status: dict[str, Any] = json.loads(done.stdout)
        return status

    def end(self) -> int | None:
        """SIGTERM; SIGKILL by pid for the processes that remain. The exit code, None if it did not end by itself."""
        members = processes.family(self.pid)
        with suppress(psutil.NoSuchProcess):
            for process in members:
                process.send_signal(signal.SIGCONT)  # it may have been left paused
        code = None
        self._process.terminate()
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        for process in psutil.wait_procs(members[1:], timeout=10)[1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        return code

    def _environment(self) -> dict[str, str]:
        """Python finds the tree's own packages first, in Ray's workers as well."""
        return {**os.environ, **self._bucket_environment, "PYTHONPATH": str(self._tree)}

    def _enter_bucket(self, seed: int) -> None:
        """Start object storage behind a proxy with faults; some hundred of the faults that a run draws are met."""
        folder = self._folder / "object-storage"
        folder.mkdir()
        service = self._bucket.enter_context(seaweedfs(folder))
        proxy = self._bucket.enter_context(faulty(service.endpoint))
        proxy.random = random.Random(seed)
        self._bucket_environment = service.environment(proxy.url)
        self.bucket_faults = proxy.met

    def __enter__(self) -> Cluster:
        with ExitStack() as undo:
            if self._bucket_seed is not None:
                undo.push(self._bucket)
                self._enter_bucket(self._bucket_seed)
            self.start()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._bucket:
            self.end()


def free_ports(count: int) -> int:
    """Return the first of ``count`` consecutive unused ports, below those that the kernel assigns to clients."""
    while True:
        first = random.randrange(20_000, 32_000)
        with ExitStack() as held, suppress(OSError):
            for number in range(count):
                held.enter_context(socket.create_server(("127.0.0.1", first + number)))
            return first
