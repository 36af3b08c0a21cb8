"""A copy of a subtree of ZooKeeper in memory, kept current by one persistent recursive watch."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState, WatchedEvent

from muster.placement.mapping.repair import Node
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 5.0
_RETRY_S = 0.5
_GATHER_S, _MAX_GATHER_S = 0.02, 5.0
_RAIN = 50
"""A burst: this many events in ``_GATHER_S``. It has ended after so many intervals with fewer:"""
_BETWEEN_SHOWERS = 10


class _Signal(Enum):
    CONNECTED = auto()
    DISCONNECTED = auto()
    STOP = auto()


class Mirror:
    """All nodes below ``root``. Reads everything once connected, and then only nodes that are created or changed.

    Deleted nodes are not read: the event is sufficient, and any later creation has its own event. The reading is done
    on a separate thread. While ZooKeeper is unavailable, and until everything has been read again after that, there is
    no snapshot.
    """

    def __init__(self, zk: ZooKeeperClient, root: str, *, on_deleted: Callable[[], None] = lambda: None) -> None:
        """Call ``on_deleted`` on the reading thread after events of deleted nodes."""
        self._zk = zk
        self._root = root
        self._signals: queue.SimpleQueue[_Signal | WatchedEvent] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._nodes: dict[str, Node] = {}
        self._shown: Mapping[str, Node] | None = None
        self._current = False
        self._full_reads = 0
        self._node_reads = 0
        self._deleted = 0
        self._on_deleted = on_deleted
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"mirror-of-{root}", daemon=True)

    def start(self) -> None:
        """Start. The client may or may not be connected already."""
        self._zk.add_listener(self._on_state)
        if self._zk.connected:
            self._signals.put(_Signal.CONNECTED)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Does not change the client."""
        self._zk.remove_listener(self._on_state)
        self._signals.put(_Signal.STOP)
        self._thread.join()

    def snapshot(self, timeout_s: float = 0) -> Mapping[str, Node] | None:
        """Return the nodes by path; None if after ``timeout_s`` they are not known to be current.

        A snapshot is immutable, and the same object as the last one if nothing has changed since.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._current, timeout_s):
                return None
            if self._shown is None:
                self._shown = dict(self._nodes)
            return self._shown

    @property
    def full_reads(self) -> int:
        """How often everything was read."""
        return self._full_reads

    @property
    def node_reads(self) -> int:
        """The number of single nodes read because they were created or changed."""
        return self._node_reads

    @property
    def deleted(self) -> int:
        """The number of nodes reported as deleted."""
        return self._deleted

    def _on_state(self, state: str) -> None:
        connected = state == KazooState.CONNECTED
        if not connected:
            self._current = False
        self._signals.put(_Signal.CONNECTED if connected else _Signal.DISCONNECTED)

    def _on_event(self, event: WatchedEvent) -> None:
        if event.path != self._root:
            self._signals.put(event)

    def _run(self) -> None:
        unread = False
        while True:
            signals = self._take(_RETRY_S if unread else None)
            if _Signal.STOP in signals:
                return
            if _Signal.DISCONNECTED in signals:
                self._current = False
            unread = (unread or _Signal.CONNECTED in signals) and self._zk.connected
            try:
                if unread:
                    self._read_all()
                    unread = False
                else:
                    self._take_in({one.path: one.type for one in signals if isinstance(one, WatchedEvent)})
            except (ZooKeeperUnreachable, KazooException, KazooTimeoutError) as error:
                self._current, unread = False, True
                if repr(error) != self._trouble and self._zk.connected:
                    log.warning("cannot read %s from ZooKeeper (3.6 or newer is needed): %r", self._root, error)
                self._trouble = repr(error)
            else:
                self._trouble = None

    def _take(self, timeout_s: float | None) -> list[_Signal | WatchedEvent]:
        """All pending signals. Waits for the first one and, in a burst of events, for the end of the burst."""
        try:
            signals = [self._signals.get(timeout=timeout_s)]
        except queue.Empty:
            return []
        if isinstance(signals[0], WatchedEvent):
            self._gather()
        while not self._signals.empty():
            signals.append(self._signals.get())
        return signals

    def _gather(self) -> None:
        until_s = time.monotonic() + _MAX_GATHER_S
        before, quiet, patience = 0, 0, 1
        while quiet < patience and time.monotonic() < until_s:
            time.sleep(_GATHER_S)
            now = self._signals.qsize()
            if now - before >= _RAIN:
                quiet, patience = 0, _BETWEEN_SHOWERS
            else:
                quiet += 1
            before = now

    def _read_all(self) -> None:
        self._zk.watch_tree(self._root, self._on_event).get(timeout=_REQUEST_TIMEOUT_S)
        self._full_reads += 1
        nodes: dict[str, Node] = {}
        level = self._children([self._root])
        while level:
            found = self._zk.read_many(level, timeout_s=_REQUEST_TIMEOUT_S)
            nodes |= {path: Node(data, stat.version, stat.mzxid) for path, (data, stat) in found.items()}
            level = self._children(path for path, (_, stat) in found.items() if stat.numChildren)
        with self._changed:
            self._nodes, self._shown = nodes, None
            self._current = self._zk.connected
            self._changed.notify_all()

    def _children(self, parents: Iterable[str]) -> list[str]:
        found = self._zk.children_of_many(parents, timeout_s=_REQUEST_TIMEOUT_S)
        return [f"{parent}/{name}" for parent, names in found.items() for name in names]

    def _take_in(self, last_events: Mapping[str, str]) -> None:
        """Apply the last event of each of these paths."""
        if not last_events:
            return
        present = [path for path, kind in last_events.items() if kind != EventType.DELETED]
        found = self._zk.read_many(present, timeout_s=_REQUEST_TIMEOUT_S)
        self._node_reads += len(present)
        with self._changed:
            for path in last_events:
                if path in found:
                    data, stat = found[path]
                    self._nodes[path] = Node(data, stat.version, stat.mzxid)
                else:
                    self._nodes.pop(path, None)
            self._shown = None
            self._changed.notify_all()
        if gone := len(last_events) - len(found):
            self._deleted += gone
            self._on_deleted()
