"""Writes one coordinator's registrations to ZooKeeper, behind: nobody ever waits for it.

What is not written yet is kept as the newest state per node, so a long outage of ZooKeeper costs memory for
the members there are, not for all that happened. KoP's flat nodes are not written here: whether a group is
the only candidate for a client is known to no single coordinator, only to the reconciler.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from placement.layout import Malformed
from placement.mapping import decode_registration, encode_registration, registration_path
from placement.mapping_nodes import MappingNodes
from placement.registration import Change, Registration, Withdrawal
from placement.repair import Node
from placement.zookeeper import ZooKeeperClient, ZooKeeperUnreachable, client

log = logging.getLogger(__name__)

_ASK_S = 1.0


@dataclass(frozen=True, slots=True)
class _Removal:
    epoch: int
    sequence: int


class MappingWriter:
    """The ``sink`` of one offsets partition. Starts at once; ZooKeeper need not be there yet.

    ``zk_hosts`` is a connect string (ZooKeeperUnreachable if it is none).
    """

    def __init__(self, zk_hosts: str) -> None:
        self._zk: ZooKeeperClient = client(zk_hosts)
        self._nodes = MappingNodes(self._zk, timeout_s=_ASK_S)
        self._pending: dict[str, Registration | _Removal] = {}
        self._paths: dict[tuple[str, str], str] = {}
        self._in_flight: str | None = None
        self._closing = False
        self._abandoned = False
        self._written = 0
        self._failed = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="mapping-writer", daemon=True)
        self._thread.start()

    def put(self, statements: Iterable[Change]) -> None:
        """Have the statements written, in their order. Returns at once.

        A Withdrawal names no client; it removes the node that this writer wrote for the member. The node of a
        member that only an earlier coordinator registered is left to the reconciler.
        """
        with self._changed:
            for statement in statements:
                self._note(statement)
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is written. False if it is not after ``timeout_s``."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._backlog(), timeout_s)

    def close(self, flush_s: float) -> None:
        """Write what is pending, for at most ``flush_s``, and end. No registration is removed by that."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(flush_s)
        with self._changed:
            self._abandoned = True
            left = self._backlog()
        if left:
            log.warning("%d changes of the client-to-group mapping were not written", left)

    @property
    def backlog(self) -> int:
        """Nodes that are not yet as they should be."""
        with self._changed:
            return self._backlog()

    def status(self) -> dict[str, int | bool]:
        """Backlog, statements written, statements given up, and whether ZooKeeper is connected."""
        return {
            "backlog": self.backlog,
            "written": self._written,
            "failed": self._failed,
            "connected": bool(self._zk.connected),
        }

    def _backlog(self) -> int:
        return len(self._pending.keys() | ({self._in_flight} if self._in_flight else set()))

    def _note(self, statement: Change) -> None:
        member = (statement.group, statement.member_id)
        removal = _Removal(statement.epoch, statement.sequence)
        if isinstance(statement, Withdrawal):
            if path := self._paths.pop(member, None):
                self._pending[path] = removal
            return
        path = registration_path(statement)
        before = self._paths.get(member)
        if before is not None and before != path:
            self._pending[before] = removal
        self._paths[member] = path
        self._pending[path] = statement

    def _run(self) -> None:
        self._zk.start_async()
        try:
            while (work := self._next()) is not None:
                path, wanted = work
                done = self._attempt(path, wanted)
                with self._changed:
                    self._in_flight = None
                    if not done:
                        self._pending.setdefault(path, wanted)
                    self._changed.notify_all()
        finally:
            self._zk.shut()

    def _next(self) -> tuple[str, Registration | _Removal] | None:
        """What to write next; None when it is time to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closing)
            if self._abandoned or not self._pending:
                return None
            path = next(iter(self._pending))
            self._in_flight = path
            return path, self._pending.pop(path)

    def _attempt(self, path: str, wanted: Registration | _Removal) -> bool:
        """False if ZooKeeper is away and it is worth another try."""
        try:
            if isinstance(wanted, _Removal):
                self._nodes.remove_if(path, lambda node: not _newer(path, node, wanted))
            else:
                self._write(path, wanted)
        except ZooKeeperUnreachable:
            return False
        except Exception:
            log.exception("cannot write %s; left to the reconciler", path)
            self._failed += 1
        else:
            self._written += 1
        return True

    def _write(self, path: str, wanted: Registration) -> None:
        data = encode_registration(wanted)
        while not self._nodes.create(path, data):
            node = self._nodes.read(path)
            if node is None:
                continue
            stale = node.data == data or _newer(path, node, _Removal(wanted.epoch, wanted.sequence))
            if stale or self._nodes.set_if(path, data, node.version):
                return


def _newer(path: str, node: Node, ours: _Removal) -> bool:
    """Whether the node holds a later statement than ours; what cannot be read is no statement."""
    try:
        held = decode_registration(path, node.data)
    except Malformed:
        return False
    return (held.epoch, held.sequence) > (ours.epoch, ours.sequence)
