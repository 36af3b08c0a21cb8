"""A copy of a part of ZooKeeper's tree in memory, kept true by one persistent recursive watch."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterable
from enum import Enum, auto

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent

from placement.repair import Node
from placement.zookeeper import ZooKeeperClient, ZooKeeperUnreachable

log = logging.getLogger(__name__)

_ASK_S = 5.0
_RETRY_S = 0.5


class _Signal(Enum):
    CONNECTED = auto()
    DISCONNECTED = auto()
    STOP = auto()


class Mirror:
    """All nodes below ``root``. Reads everything when a connection is made, and then only what changes.

    A thread of its own does the reading. While ZooKeeper is away, or until everything is read again after
    that, there is no snapshot.
    """

    def __init__(self, zk: ZooKeeperClient, root: str) -> None:
        self._zk = zk
        self._root = root
        self._signals: queue.SimpleQueue[_Signal | str] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._nodes: dict[str, Node] = {}
        self._current = False
        self._full_reads = 0
        self._node_reads = 0
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"mirror-of-{root}", daemon=True)

    def start(self) -> None:
        """Begin. The client may be connected already or not."""
        self._zk.add_listener(self._on_state)
        if self._zk.connected:
            self._signals.put(_Signal.CONNECTED)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. The client stays as it is."""
        self._zk.remove_listener(self._on_state)
        self._signals.put(_Signal.STOP)
        self._thread.join()

    def snapshot(self, timeout_s: float = 0) -> dict[str, Node] | None:
        """The nodes by path; None if after ``timeout_s`` they are not known to be current."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._current, timeout_s):
                return None
            return dict(self._nodes)

    @property
    def full_reads(self) -> int:
        """How often everything was read."""
        return self._full_reads

    @property
    def node_reads(self) -> int:
        """How many single nodes were read because they changed."""
        return self._node_reads

    def _on_state(self, state: str) -> None:
        connected = state == KazooState.CONNECTED
        if not connected:
            self._current = False
        self._signals.put(_Signal.CONNECTED if connected else _Signal.DISCONNECTED)

    def _on_event(self, event: WatchedEvent) -> None:
        if event.path != self._root:
            self._signals.put(event.path)

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
                    self._read_again({path for path in signals if isinstance(path, str)})
            except (ZooKeeperUnreachable, KazooException, KazooTimeoutError) as error:
                self._current, unread = False, True
                if repr(error) != self._trouble and self._zk.connected:
                    log.warning("cannot read %s from ZooKeeper (3.6 or newer is needed): %r", self._root, error)
                self._trouble = repr(error)
            else:
                self._trouble = None

    def _take(self, timeout_s: float | None) -> list[_Signal | str]:
        """All signals there are; waits for the first."""
        try:
            signals = [self._signals.get(timeout=timeout_s)]
        except queue.Empty:
            return []
        while not self._signals.empty():
            signals.append(self._signals.get())
        return signals

    def _read_all(self) -> None:
        self._zk.watch_tree(self._root, self._on_event).get(timeout=_ASK_S)
        self._full_reads += 1
        nodes: dict[str, Node] = {}
        level = self._children([self._root])
        while level:
            found = self._zk.read_many(level, timeout_s=_ASK_S)
            nodes |= {path: Node(data, stat.version, stat.mzxid) for path, (data, stat) in found.items()}
            level = self._children(path for path, (_, stat) in found.items() if stat.numChildren)
        with self._changed:
            self._nodes = nodes
            self._current = self._zk.connected
            self._changed.notify_all()

    def _children(self, parents: Iterable[str]) -> list[str]:
        paths = []
        for parent in parents:
            try:
                names = self._zk.ask(self._zk.get_children_async, parent, timeout_s=_ASK_S)
            except NoNodeError:
                continue
            paths += [f"{parent}/{name}" for name in names]
        return paths

    def _read_again(self, paths: set[str]) -> None:
        found = self._zk.read_many(paths, timeout_s=_ASK_S) if paths else {}
        self._node_reads += len(paths)
        with self._changed:
            for path in paths:
                if path in found:
                    data, stat = found[path]
                    self._nodes[path] = Node(data, stat.version, stat.mzxid)
                else:
                    self._nodes.pop(path, None)
            self._changed.notify_all()
