"""This process's connections to ZooKeeper: one log line when the first is lost, one when all are restored."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

log = logging.getLogger("muster.placement.zookeeper.client")


@dataclass(frozen=True, slots=True)
class Connectivity:
    """The state of a process, across all of its connections to ZooKeeper."""

    connected: bool
    """False from the first lost connection until every one is restored."""
    outages: int
    """Outages since the process started."""


class Outages:
    """The outages of one ZooKeeper as seen by one process, with any number of clients. Thread-safe."""

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._lock = threading.Lock()
        self._without: set[object] = set()
        self._since: float | None = None
        self._count = 0
        self._expired = False
        self._reasons: set[str] = set()

    def lost(self, client: object) -> None:
        """Record that the client has no connection. May be called repeatedly."""
        with self._lock:
            self._without.add(client)
            if self._since is None:
                self._since = time.monotonic()
                self._count += 1
                self._expired = False
                self._reasons.clear()
                log.warning("ZooKeeper at %s is unavailable, reconnecting", self._hosts)

    def refused(self, reason: str) -> None:
        """No connection will come without a change of files or settings. One line for each reason and outage."""
        with self._lock:
            if reason not in self._reasons:
                self._reasons.add(reason)
                log.error("no connection to ZooKeeper at %s: %s", self._hosts, reason)

    def expired(self) -> None:
        """Record that the server has ended a client's session."""
        with self._lock:
            self._expired = True

    def found(self, client: object) -> None:
        """Record that the client is connected."""
        with self._lock:
            self._without.discard(client)
            if self._since is None or self._without:
                return
            session = ", with a new session" if self._expired else ""
            log.warning("ZooKeeper at %s is back after %.1f s%s", self._hosts, time.monotonic() - self._since, session)
            self._since = None

    def closed(self, client: object) -> None:
        """Stop tracking the client. If it was the last one waiting, the end of the outage will not be known."""
        with self._lock:
            self._without.discard(client)
            if not self._without:
                self._since = None

    def now(self) -> Connectivity:
        with self._lock:
            return Connectivity(self._since is None, self._count)


_ALL: dict[str, Outages] = {}
_ALL_LOCK = threading.Lock()


def outages_of(hosts: str) -> Outages:
    """Return the outages of the ensemble; ``hosts`` without chroot."""
    with _ALL_LOCK:
        return _ALL.setdefault(hosts, Outages(hosts))


def connectivity() -> Connectivity:
    """Return the current state of this process; connected if it never used ZooKeeper."""
    with _ALL_LOCK:
        states = [outages.now() for outages in _ALL.values()]
    return Connectivity(all(state.connected for state in states), sum(state.outages for state in states))
