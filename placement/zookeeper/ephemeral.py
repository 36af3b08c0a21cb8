"""An ephemeral node that exists for as long as its owner lives, across ZooKeeper sessions."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from muster.placement.zookeeper.access import ANYONE, Access
from muster.placement.zookeeper.client import ZooKeeperUnreachable, client

log = logging.getLogger(__name__)

_RETRY_S = 2.0


class EphemeralNode:
    """Shows Kafka's tools and users who is there (``/brokers/ids/<id>``, ``/controller``).

    Nothing in Muster reads such nodes, and nothing waits for them: ZooKeeper may be unavailable. A node that a
    predecessor left at the same path is replaced. The work is done on a separate thread.
    """

    def __init__(self, zk_hosts: str, path: str, data: Callable[[], bytes], access: Access = ANYONE) -> None:
        """Call ``data`` again for every session and every :meth:`refresh`."""
        self._path = path
        self._data = data
        self._zk = client(zk_hosts, access)
        self._due = threading.Event()
        self._closed = threading.Event()
        self._zk.add_listener(self._state_changed)
        self._thread = threading.Thread(target=self._run, name=f"ephemeral {path}", daemon=True)
        self._thread.start()

    def _state_changed(self, state: str) -> None:
        if state == "CONNECTED":
            self._due.set()

    def refresh(self) -> None:
        """Write the node again soon: its content has changed."""
        self._due.set()

    def _run(self) -> None:
        self._zk.start_async()
        while not self._closed.is_set():
            if not self._due.wait(_RETRY_S) or self._closed.is_set():
                continue
            self._due.clear()
            try:
                self._create()
            except ZooKeeperUnreachable:  # the client logs it; the next session finds the node due
                self._due.set()
                self._closed.wait(_RETRY_S)
            except KazooException as error:
                log.warning("%s cannot be created now: %r", self._path, error)
                self._due.set()
                self._closed.wait(_RETRY_S)

    def _create(self) -> None:
        try:
            self._zk.call(self._zk.create_async, self._path, self._data(), ephemeral=True, makepath=True)
        except NodeExistsError:
            if self._is_ours():
                self._zk.call(self._zk.set_async, self._path, self._data())
                return
            with contextlib.suppress(NoNodeError):
                self._zk.call(self._zk.delete_async, self._path)
            self._zk.call(self._zk.create_async, self._path, self._data(), ephemeral=True, makepath=True)

    def _is_ours(self) -> bool:
        found = self._zk.call(self._zk.exists_async, self._path)
        session = self._zk.client_id[0] if self._zk.client_id else None
        return found is not None and found.ephemeralOwner == session

    def close(self) -> None:
        """End the session, and with it the node. Waits for 2 s at most."""
        self._closed.set()
        self._due.set()
        self._thread.join(_RETRY_S)
        self._zk.shut()
