"""Writes one coordinator's registrations to ZooKeeper in the background: nothing ever waits for it.

For each node only the newest unwritten state is kept: in a long outage of ZooKeeper, memory grows with the number of
members, not of changes. KoP's flat nodes are not written here: no single coordinator knows whether a group is the only
candidate for a client, only the reconciler does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from muster.placement.layout import Malformed
from muster.placement.mapping.nodes import decode_registration, encode_registration, registration_path
from muster.placement.mapping.registration import Change, Registration, Withdrawal
from muster.placement.mapping.repair import Node
from muster.placement.mapping.writes import BATCH, MappingNodes, Outcome, WriteIf
from muster.placement.zookeeper.access import ANYONE, Access
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, client

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class _Removal:
    epoch: int
    sequence: int


_Work = dict[str, Registration | _Removal]
"""The newest state of each node, or its removal."""


class MappingWriter:
    """The ``sink`` of one offsets partition. Starts immediately, even if ZooKeeper is not available yet.

    ``zk_hosts`` is a connect string (ZooKeeperUnreachable if it is not one).
    """

    def __init__(self, zk_hosts: str, access: Access = ANYONE) -> None:
        self._zk: ZooKeeperClient = client(zk_hosts, access)
        self._nodes = MappingNodes(self._zk, timeout_s=_REQUEST_TIMEOUT_S)
        self._pending: _Work = {}
        self._paths: dict[tuple[str, str], str] = {}
        self._in_flight: _Work = {}
        self._closing = False
        self._abandoned = False
        self._written = 0
        self._failed = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="mapping-writer", daemon=True)
        self._thread.start()

    def put(self, updates: Iterable[Change]) -> None:
        """Queue the updates in their order. Returns immediately.

        A Withdrawal does not name the client; it removes the node that this writer wrote for the member. The node of
        a member that only an earlier coordinator registered is left to the reconciler.
        """
        with self._changed:
            for update in updates:
                self._note(update)
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is written. Returns False if that takes longer than ``timeout_s``."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._backlog(), timeout_s)

    def close(self, flush_s: float) -> None:
        """Write what is pending, for at most ``flush_s``, and stop. This removes no registration."""
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
        """Nodes that are not up to date yet."""
        with self._changed:
            return self._backlog()

    def status(self) -> dict[str, int | bool]:
        """Backlog, updates written, updates that failed, and whether ZooKeeper is connected."""
        return {
            "backlog": self.backlog,
            "written": self._written,
            "failed": self._failed,
            "connected": bool(self._zk.connected),
        }

    def _backlog(self) -> int:
        return len(self._pending.keys() | self._in_flight.keys())

    def _note(self, update: Change) -> None:
        member = (update.group, update.member_id)
        if isinstance(update, Withdrawal):
            if path := self._paths.pop(member, None):
                self._pending[path] = _Removal(update.epoch, update.sequence)
            return
        path = registration_path(update)
        before = self._paths.get(member)
        if before is not None and before != path:
            self._pending[before] = _Removal(update.epoch, update.sequence)
        self._paths[member] = path
        self._pending[path] = update

    def _run(self) -> None:
        self._zk.start_async()
        try:
            while work := self._next():
                undone = self._carry_out(work)
                with self._changed:
                    self._in_flight = {}
                    for path, wanted in undone.items():
                        self._pending.setdefault(path, wanted)
                    self._changed.notify_all()
        finally:
            self._zk.shut()

    def _next(self) -> _Work:
        """Return the next updates to write; empty when it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closing)
            if self._abandoned:
                return {}
            paths = list(islice(self._pending, BATCH))
            self._in_flight = {path: self._pending.pop(path) for path in paths}
            return self._in_flight

    def _carry_out(self, work: _Work) -> _Work:
        """Write. Returns what to retry: ZooKeeper was unavailable, or other writers intervened too often."""
        try:
            outcomes = self._nodes.apply(_change(path, wanted) for path, wanted in work.items())
        except ZooKeeperUnreachable:
            return work
        except Exception:
            if len(work) > 1:  # one failure must not affect the others
                alone = (self._carry_out({path: wanted}) for path, wanted in work.items())
                return {path: wanted for undone in alone for path, wanted in undone.items()}
            log.exception("cannot write %s; left to the reconciler", *work)
            self._failed += 1
            return {}
        for path in (path for path, outcome in outcomes.items() if outcome is Outcome.TOO_LARGE):
            log.error("%s is too large for ZooKeeper", path)
            self._failed += 1
        self._written += sum(outcome in (Outcome.DONE, Outcome.NEEDLESS) for outcome in outcomes.values())
        return {path: work[path] for path, outcome in outcomes.items() if outcome is Outcome.LOST}


def _change(path: str, wanted: Registration | _Removal) -> WriteIf:
    if isinstance(wanted, _Removal):
        return WriteIf(path, None, lambda node: node is not None and not _newer(path, node, wanted))
    data = encode_registration(wanted)
    ours = _Removal(wanted.epoch, wanted.sequence)
    return WriteIf(path, data, lambda node: node is None or not (node.data == data or _newer(path, node, ours)))


def _newer(path: str, node: Node, ours: _Removal) -> bool:
    """Whether the node holds a later update than ours. An unreadable node does not count as an update."""
    try:
        held = decode_registration(path, node.data)
    except Malformed:
        return False
    return (held.epoch, held.sequence) > (ours.epoch, ours.sequence)
