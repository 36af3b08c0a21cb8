"""A Ray of one node with a token, a dashboard and a server for Ray Client, as ``ray start`` makes it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import psutil

from pytest_muster.bound import bound
from tests.muster_process import eventually
from tests.ray.programs import ROOT

_START_S = 120
_STOP_S = 30


class RayHead:
    """``with RayHead(folder) as head``: ``folder`` holds its home, and its log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.token = folder / "ray-token"
        self.gcs, self.client, self.dashboard = _free_ports(3)
        self.access: Mapping[str, str] = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token)}
        """Variables of programs that use it."""

    @property
    def address(self) -> str:
        """HOST:PORT of its GCS."""
        return f"127.0.0.1:{self.gcs}"

    def __enter__(self) -> RayHead:
        self.token.write_text(secrets.token_hex(32))
        self.token.chmod(0o600)
        self._temp_dir = Path(tempfile.mkdtemp(prefix="muster-head-", dir="/tmp"))  # short, for the sockets in it
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment |= {
            **self.access,
            "HOME": str(self._folder),
            "PYTHONPATH": str(ROOT),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_agent_register_timeout_ms": "100000",  # a machine that is busy with other tests starts slowly
        }
        ports = {"port": self.gcs, "ray-client-server-port": self.client, "dashboard-port": self.dashboard}
        ports |= {"dashboard-agent-listen-port": 0, "min-worker-port": 0, "max-worker-port": 0}
        with (self._folder / "ray.log").open("w") as log:
            self._process = subprocess.Popen(
                bound(
                    [
                        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2"),
                        *("--object-store-memory=80000000", f"--temp-dir={self._temp_dir}", "--include-dashboard=true"),
                        *(f"--{name}={port}" for name, port in ports.items()),
                    ]
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._folder,
            )
        try:
            for port in (self.gcs, self.client, self.dashboard):
                self._until_open(port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _until_open(self, port: int) -> None:
        def is_open() -> bool:
            with closing(socket.socket()) as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        eventually(lambda: is_open() or self._process.poll() is not None, bool, f"port {port} is open", _START_S)
        assert self._process.poll() is None, (self._folder / "ray.log").read_text()[-4000:]

    def __exit__(self, *_: object) -> None:
        process = psutil.Process(self._process.pid)
        all_of_it = [process, *process.children(recursive=True)]
        for each in all_of_it:
            each.kill()
        self._process.wait(_STOP_S)
        psutil.wait_procs(all_of_it, _STOP_S)
        shutil.rmtree(self._temp_dir, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
