"""A Ray of its own for tests, in a process of its own: ``with RayHead() as head: ray.init(head.address)``.

Nothing is written into the home directory, as the Ray has no token, and nothing is left when it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pytest_muster.bound import bound

ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
"""Variables of every process that uses it, set while it runs."""
_QUIET = {"RAY_memory_monitor_refresh_ms": "0", "RAY_worker_niceness": "0"}
_STOP_S = 60


class RayHead:
    """One node, without a dashboard. Actors may have 16 CPUs, whatever the machine has."""

    def __init__(self, cpus: int = 16) -> None:
        self._cpus = cpus
        self.address = ""

    def __enter__(self) -> Self:
        self._before = {name: os.environ.get(name) for name in ENVIRONMENT}
        os.environ.update(ENVIRONMENT)
        self._temp_dir = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))
        command = [sys.executable, "-m", "tests.ray_head", str(self._temp_dir), str(self._cpus)]
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        with (self._temp_dir / "log").open("w") as log:
            self._process = subprocess.Popen(
                bound(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).parents[1],
                env={**environment, **_QUIET},
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (self._temp_dir / "log").read_text()[-4000:]
        self.address = json.loads(line)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_STOP_S)
        shutil.rmtree(self._temp_dir, ignore_errors=True)
        for name, value in self._before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def connected() -> Iterator[str]:
    """Connect this process to a Ray of its own; yield the address."""
    with RayHead() as head:
        import ray  # it reads the environment

        ray.init(head.address, log_to_driver=False, configure_logging=False)
        try:
            yield head.address
        finally:
            ray.shutdown()


def main() -> None:
    """Run Ray until stdin ends. Prints its address as JSON."""
    import ray

    temp_dir, cpus = sys.argv[1:]
    context = ray.init(
        address="local",
        num_cpus=int(cpus),
        include_dashboard=False,
        object_store_memory=100_000_000,
        _temp_dir=temp_dir,
        log_to_driver=False,
        configure_logging=False,
    )
    print(json.dumps(context.address_info["address"]), flush=True)  # type: ignore[attr-defined]
    sys.stdin.read()
    ray.shutdown()


if __name__ == "__main__":
    main()
