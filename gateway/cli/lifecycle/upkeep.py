"""Upkeep by ``muster up``: it watches the room in the storage, and starts ZooKeeper again if it ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from muster.actors.runtime.storage.reserve import Reserve
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper, ZooKeeperStartError

log = logging.getLogger(__name__)

_INTERVAL_S = 1.0
_MAX_PAUSE_S = 10.0
_STABLE_S = 60.0
"""A ZooKeeper that ran for so long is started again at once."""


class Upkeep:
    """Thread of its own: a start of the cluster waits for the parts that it keeps running."""

    def __init__(self, storage: Path, server: EmbeddedZooKeeper | None, note: Callable[[str], None]) -> None:
        """Take ``server``: Muster's own ZooKeeper, if it has one. ``note`` gets messages for the operator."""

        def say(text: str) -> None:
            with suppress(OSError):  # its terminal is gone, or its output is a file on the full disk
                note(text)

        self._reserve = Reserve(storage)
        self._server = None if server is None else _Restarts(server, say)
        self._note = say
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, before ZooKeeper is stopped on purpose. A restart that is under way ends with ZooKeeper's stop."""
        self._ending.set()

    def _run(self) -> None:
        failed: str | None = None
        while True:
            try:
                if (text := self._reserve.keep()) is not None:
                    self._note(text)
                failed = None
            except OSError as error:
                if failed != str(error):
                    failed = str(error)
                    log.warning("the reserve of the storage cannot be kept: %s", error)
            if self._server is not None:
                self._server.check()
            if self._ending.wait(_INTERVAL_S):
                return


class _Restarts:
    """Restarts of a server that has ended by itself, with growing pauses."""

    def __init__(self, server: EmbeddedZooKeeper, note: Callable[[str], None]) -> None:
        self._server = server
        self._note = note
        self._ended_s: float | None = None
        self._started_s = time.monotonic()
        self._pause_s = self._due_s = 0.0
        self._reason: str | None = None

    def check(self) -> None:
        """Start the server if it is down and the time has come."""
        if not self._server.is_lost:
            return
        now_s = time.monotonic()
        if self._ended_s is None:
            self._ended_s, self._reason = now_s, None
            if now_s - self._started_s > _STABLE_S:
                self._pause_s = 0.0
            self._due_s = now_s + self._pause_s
            self._note("ZooKeeper ended by itself and is started again; meanwhile, what serves continues")
        if now_s < self._due_s:
            return
        self._pause_s = min(_MAX_PAUSE_S, 2 * self._pause_s or 1.0)
        try:
            self._server.restart()
        except ZooKeeperStartError as error:
            self._due_s = time.monotonic() + self._pause_s
            if self._reason is None:
                self._reason = str(error)
                self._note(f"{error}; it is tried again, every {_MAX_PAUSE_S:g} s in the end")
            return
        if self._server.alive:
            self._started_s = time.monotonic()
            self._note(f"ZooKeeper is back after {self._started_s - self._ended_s:.1f} s")
            self._ended_s = None
