"""Reads the status of a Muster again and again in a process that stays connected to its Ray.

``muster status`` does the same once, and takes seconds of processor time to connect: too much for a test that waits for
a state. The process reads a line for each request, and prints a line with what :mod:`muster.gateway.cli` found.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from muster.gateway.cli.running import connected
from muster.gateway.cli.storage import directory as storage
from pytest_muster.bound import bound


class StatusReader:
    """The process starts with the first read, and anew if it has ended."""

    def __init__(self, directory: Path, environment: dict[str, str] | None = None) -> None:
        self._directory = directory
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    def read(self) -> dict[str, Any]:
        """Return the status like ``muster status --json``. Raises AssertionError with the reason if it fails now."""
        if self._process is None:
            self._process = subprocess.Popen(
                bound([sys.executable, "-m", "tests.status_reader", str(self._directory)]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=self._environment,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:  # it ends with its raylet
            self.close()
            raise AssertionError("the Ray is gone, or the reader of its status")
        found: dict[str, Any] = json.loads(line)
        assert "error" not in found, found["error"]
        return found

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def main(directory: Path) -> None:
    responses = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other output must not mix with responses
    connection = contextlib.ExitStack()
    connected_to: storage.RunState | None = None
    for _ in sys.stdin:
        try:
            state = storage.read_state(directory)
            if connected_to is None or state != connected_to:
                connection.close()
                connection.enter_context(connected(directory, None))
                connected_to = state
            found = _status()
        except click.ClickException as error:
            found = {"error": error.message}
        print(json.dumps(found), file=responses, flush=True)


def _status() -> dict[str, Any]:
    from muster.gateway import cluster  # it imports Ray, which reads once where its token is

    try:
        return cluster.cluster_status()
    except cluster.ClusterError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
