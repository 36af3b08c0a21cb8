"""Whether a Ray can still be reached.

Ray itself kills a driver whose GCS is unreachable, after a minute; a driver whose raylet has ended continues
forever. We check every second and end in order before that.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time

import psutil

from muster.actors.runtime.ray.public_api import public_api_only

log = logging.getLogger(__name__)

_LISTENS_S, _RESPONDS_S = 1.0, 10.0
_RAY_PATIENCE = "RAY_gcs_rpc_server_reconnect_timeout_s"
_RAY_PATIENCE_S = 60.0
"""Ray's default. After this time, Ray ends a driver that has lost its GCS."""


class Reach:
    """The Ray that this process is connected to."""

    def __init__(self, address: str, node_id: str) -> None:
        """Take HOST:PORT of its GCS, and the node of this process."""
        self.address = address
        self._node_id = node_id
        self._raylet = None if public_api_only() else _raylet(node_id)
        self._patience_s = float(os.environ.get(_RAY_PATIENCE, _RAY_PATIENCE_S)) / 2
        self._answered_at = time.monotonic()
        self._looking: threading.Thread | None = None
        """The last look at the nodes, to which the GCS may not have responded yet."""
        self._found: frozenset[str] | None = None

    def missing(self) -> str | None:
        """Return why this Ray is considered lost; None while it is available. A short outage of the GCS is
        tolerated."""
        has_ended = self._node_has_ended()
        if has_ended:
            return f"Ray at {self.address} is no longer running on this host: its raylet has ended"
        if has_ended is False and self.listens:
            self._answered_at = time.monotonic()
        elif time.monotonic() - self._answered_at > self._patience_s:
            return f"Ray at {self.address} is gone: nothing has responded there for {self._patience_s:g} s"
        return None

    @property
    def responds(self) -> bool:
        """Whether it can be called now; a call to a GCS that is down would not return."""
        return self._node_has_ended(_RESPONDS_S) is False and self.listens

    @property
    def listens(self) -> bool:
        """Whether its GCS is available, perhaps for other nodes only."""
        return listens(self.address)

    def _node_has_ended(self, within_s: float = _LISTENS_S) -> bool | None:
        """None if the GCS would have to say it, and does not in time."""
        if not public_api_only():
            return self._raylet is not None and not is_alive(self._raylet)
        nodes = self._alive_nodes(within_s) if self.listens else None
        return None if nodes is None else self._node_id not in nodes

    def _alive_nodes(self, within_s: float) -> frozenset[str] | None:
        """Ids of the nodes that are alive; None without a timely response: ``ray.nodes`` has no time limit itself."""
        import ray

        def look() -> None:
            try:
                nodes = ray.nodes()  # type: ignore[no-untyped-call]
            except Exception as error:  # of many kinds: the driver may have been shut down meanwhile
                log.debug("the nodes of the Ray at %s are unknown: %s", self.address, error)
            else:
                self._found = frozenset(node["NodeID"] for node in nodes if node["Alive"])

        if self._looking is None or not self._looking.is_alive():
            self._found = None
            self._looking = threading.Thread(target=look, name="nodes-of-ray", daemon=True)
            self._looking.start()
        self._looking.join(within_s)
        return self._found


def listens(address: str) -> bool:
    """Return whether a server listens at HOST:PORT; False also if it does not respond within a second."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_LISTENS_S).close()
    except (OSError, OverflowError):
        return False
    return True


def is_alive(process: psutil.Process) -> bool:
    """Return False also for a process that has ended and whose parent has not collected its exit code."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _raylet(node_id: str) -> psutil.Process | None:
    """Return the raylet of that node; None if we cannot see one running."""
    argument = f"--node_id={node_id}"
    return next((process for process in psutil.process_iter(["cmdline"]) if argument in _arguments(process)), None)


def _arguments(process: psutil.Process) -> list[str]:
    return process.info["cmdline"] or []
