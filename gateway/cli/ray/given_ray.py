"""A Ray that ran before ``muster up --address`` and continues after it. If it ends earlier, that is detected here.

Ray itself kills a driver whose GCS is unreachable, after a minute; a driver whose raylet has ended continues
forever. We check every second and end in order before that.
"""

from __future__ import annotations

import atexit
import os
import time
from pathlib import Path

import psutil

from muster.actors.config import BadPlaceholder, MusterConfig
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.advertising import check_labels
from muster.gateway.cli.ray import connection, own_ray

_POLL_S = 0.5
_RAY_PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s"
_RAY_PATIENCE_S = 60.0
"""Ray's default. After this time, Ray ends a driver that has lost its GCS."""


class GivenRay:
    """Connection of this process to such a Ray. Raises CliError if none responds at the address, or it refuses us."""

    def __init__(self, address: str) -> None:
        connection.connect(address, None)
        import ray

        context = ray.get_runtime_context()
        self.address: str = context.gcs_address
        self._raylet = _raylet(context.get_node_id())
        self._patience_s = float(os.environ.get(_RAY_PATIENCE, _RAY_PATIENCE_S)) / 2
        self._answered_at = time.monotonic()

    def missing(self) -> str | None:
        """Return why this Ray is considered lost; None while it is available. A short outage of the GCS is
        tolerated."""
        if self._has_no_raylet():
            return f"Ray at {self.address} is no longer running on this host: its raylet has ended"
        if self.listens:
            self._answered_at = time.monotonic()
        elif time.monotonic() - self._answered_at > self._patience_s:
            return f"Ray at {self.address} is gone: nothing has listened there for {self._patience_s:g} s"
        return None

    @property
    def token_path(self) -> str | None:
        """File with the token that we send to this Ray, for other commands; None if it is open or not in a file."""
        if os.environ.get("RAY_AUTH_MODE") != "token" or "RAY_AUTH_TOKEN" in os.environ:
            return None
        return os.environ.get("RAY_AUTH_TOKEN_PATH", str(Path.home() / ".ray/auth_token"))

    @property
    def responds(self) -> bool:
        """Whether it can be called now; a call to a GCS that is down would not return."""
        return not self._has_no_raylet() and self.listens

    @property
    def listens(self) -> bool:
        """Whether its GCS is available, perhaps for other nodes only."""
        return connection.listens(self.address)

    def wait_for_nodes(self, count: int, timeout_s: float) -> int:
        """Wait for this many live nodes. Returns their number, which is lower after the timeout or if Ray is lost."""
        import ray

        until = time.monotonic() + timeout_s
        while True:
            alive = sum(node["Alive"] for node in ray.nodes())  # type: ignore[no-untyped-call]
            if alive >= count or time.monotonic() > until or not self.responds:
                return alive
            time.sleep(_POLL_S)

    def check_labels(self, config: MusterConfig) -> None:
        """Raise CliError if a live node lacks a label that the configuration refers to."""
        import ray

        try:
            check_labels(config, [node for node in ray.nodes() if node["Alive"]])  # type: ignore[no-untyped-call]
        except BadPlaceholder as error:
            raise CliError(str(error)) from error

    def close(self) -> None:
        """Disconnect from it."""
        import ray

        if self.responds:
            ray.shutdown()
        else:
            atexit.unregister(ray.shutdown)  # it would wait for processes that have ended

    def _has_no_raylet(self) -> bool:
        return self._raylet is not None and not own_ray.is_alive(self._raylet)


def _raylet(node_id: str) -> psutil.Process | None:
    """Return the raylet of that node; None if we cannot see one running."""
    argument = f"--node_id={node_id}"
    return next((process for process in psutil.process_iter(["cmdline"]) if argument in _arguments(process)), None)


def _arguments(process: psutil.Process) -> list[str]:
    return process.info["cmdline"] or []
