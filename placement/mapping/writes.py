"""Conditional writes of the client-to-group mapping, many in one transaction. Calls block on ZooKeeper.

A version alone protects neither a removal nor a change: it starts again at 0 when a node is re-created, so a late
writer that read version 0 would hit the new node. Therefore every creation increments the version of a *fence* in the
same transaction, and every removal or change checks the fence version that was read before the node: nothing can have
been re-created in between, so the transaction hits the node that was read. The same holds for a transaction of many
nodes: all fences are read first, then the nodes, and the transaction is carried out as a whole or not at all.

The fences are separate nodes (``/client_group_fences``). A path is mapped to one of 16 by hash, so creations disturb
one removal in sixteen, and deleting ``/client_group_id`` with its content does not reset their versions. Nodes of hosts
and clients hold no data, so it does not matter which one is removed while it is empty; creating one increments no
fence. They are created in the transaction that needs them, so no reader sees them empty before.

Many changes are read with one request and then sent as several transactions without waiting in between. ZooKeeper keeps
the last 500 transactions in memory, so they are small. It processes a session's requests in order: transactions that
check fences go first, so a call does not disturb itself. A creation needs no read: it fails by itself if the node
exists (:meth:`MappingNodes.create`). Creations are therefore sent as they come, grouped by fence: incrementing a fence
costs ZooKeeper as much as creating a node.

Writers never wait for each other. A transaction fails only because another one was carried out since this one read:
one that created a node, or wrote one of the same nodes. Its changes are read and tried again: three times together,
then five times each by itself, and are then given up for now (``Outcome.LOST``). So a call always ends. Creations check
no fence, so removals cannot delay them; and since a member's node is created once, creations come to an end, and with
them the conflicts of removals.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain, islice
from zlib import crc32

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from muster.placement.layout import CLIENT_GROUP_FENCES, CLIENT_GROUP_ID
from muster.placement.mapping.repair import Node
from muster.placement.zookeeper.client import Operation, ZooKeeperClient, is_lost_connection

BATCH = 500
"""The maximum of changes in progress at once."""
LARGEST_NODE_BYTES = 900_000
"""Path and data together. ZooKeeper closes the connection on a request above jute.maxbuffer, 1 MiB by default."""
CREATED_AT_ONCE = 5_000
"""The maximum of creations in progress at once."""
_SORTED_TOGETHER = 1_000
"""Creations that are collected in order to send those of one fence together."""
_TOGETHER, _CREATED_TOGETHER = 50, 100
"""Changes and creations in one transaction, if they do not exceed this many bytes:"""
_LARGEST_TRANSACTION_BYTES = 64_000
_FENCES = tuple(f"{CLIENT_GROUP_FENCES}/{number:02d}" for number in range(16))
_ATTEMPTS = (_TOGETHER, _TOGETHER, _TOGETHER, 1, 1, 1, 1, 1)
"""How many changes each attempt puts into one transaction."""
_CONFLICTS = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)


@dataclass(frozen=True, slots=True)
class WriteIf:
    """The content that a node should get (``data``), or its removal (None), if ``when`` holds for its current state.

    ``when`` gets the node, or None if it does not exist, and may be called more than once.
    """

    path: str
    data: bytes | None
    when: Callable[[Node | None], bool]


class Outcome(Enum):
    DONE = auto()
    NEEDLESS = auto()
    """``when`` did not hold, the node to remove does not exist, or it has children."""
    LOST = auto()
    """Concurrent writes intervened too often; nothing was done, and the change may be retried."""
    TOO_LARGE = auto()
    """ZooKeeper would not accept it."""


class MappingNodes:
    """All calls raise ZooKeeperUnreachable after ``timeout_s``; the writes may or may not have been done then."""

    def __init__(
        self, zk: ZooKeeperClient, *, timeout_s: float, before_write: Callable[[int], None] = lambda _: None
    ) -> None:
        """``before_write`` is called before each transaction with the number of nodes that it writes."""
        self._zk = zk
        self._timeout_s = timeout_s
        self._before_write = before_write

    def read(self, path: str) -> Node | None:
        """Return the node, or None."""
        return self._read([path])[0].get(path)

    def apply(self, changes: Iterable[WriteIf], *, batch: int = BATCH) -> dict[str, Outcome]:
        """Carry out the changes, each path once, at most ``batch`` at a time. Returns the outcome of each.

        The order is undefined: changes that must come first belong in an earlier call.
        """
        outcomes: dict[str, Outcome] = {}
        rest = iter(changes)
        while some := list(islice(rest, batch)):
            outcomes |= dict.fromkeys(
                (change.path for change in some if _size_bytes(change) > LARGEST_NODE_BYTES), Outcome.TOO_LARGE
            )
            waiting = [change for change in some if change.path not in outcomes]
            for together in _ATTEMPTS:
                if waiting:
                    waiting = self._attempt(waiting, together, outcomes)
            outcomes |= dict.fromkeys((change.path for change in waiting), Outcome.LOST)
        return outcomes

    def create(
        self, nodes: Iterable[tuple[str, bytes]], *, seen: Collection[str], batch: int = BATCH
    ) -> dict[str, Outcome]:
        """Create the nodes that are missing, each path once. Returns the outcome of each.

        They are sent while ``nodes`` is consumed, at most ``batch`` of them in one transaction. Nothing is read first.
        Nodes above them that are not in ``seen`` are created, too; if anything was seen, the root exists. Where these
        assumptions fail, nodes are read as in :meth:`apply`. Only if nothing was seen, the fences may not exist yet:
        they are looked up, and created.
        """
        outcomes: dict[str, Outcome] = {}
        left: list[WriteIf] = []
        together = min(batch, _CREATED_TOGETHER)
        above = _Above(seen, {CLIENT_GROUP_ID} if seen else set())
        creations = _creations(nodes, together, above, outcomes)

        def hopeful() -> Iterator[_Transaction]:
            """Continues unless all have failed: in this case ``seen`` is out of date."""
            for number, creation in enumerate(creations):
                if number == 0 and not seen and not self._read(_FENCES)[0].keys() >= set(_FENCES):
                    self._make_fences()
                if len(left) >= CREATED_AT_ONCE and Outcome.DONE not in outcomes.values():
                    left.extend(creation.changes)
                    return
                yield creation

        for creation, is_done in self._commit(hopeful(), at_once=max(1, CREATED_AT_ONCE // together)):
            if is_done:
                outcomes |= dict.fromkeys((change.path for change in creation.changes), Outcome.DONE)
            else:
                left += creation.changes
        return outcomes | self.apply(
            chain(left, (change for each in creations for change in each.changes)), batch=batch
        )

    def _attempt(self, changes: Sequence[WriteIf], together: int, outcomes: dict[str, Outcome]) -> list[WriteIf]:
        """Read, decide and write once. Returns changes lost to a concurrent write or a lost connection."""
        fences = sorted({fence_of(change.path) for change in changes})
        folders = sorted({folder for change in changes if change.data is not None for folder in _folders(change.path)})
        nodes, parents = self._read([*fences, *folders, *(change.path for change in changes)])
        if not nodes.keys() >= set(fences):
            self._make_fences()
            return list(changes)
        todo = [change for change in changes if _applies(change, nodes.get(change.path), change.path in parents)]
        outcomes |= dict.fromkeys((change.path for change in changes), Outcome.NEEDLESS)
        above = _Above(nodes, set())
        transactions = (
            _Transaction(some, nodes, above)
            for kind in (True, False)
            for some in _parts([change for change in todo if (change.path in nodes) is kind], together)
        )
        left: list[WriteIf] = []
        for transaction, is_done in self._commit(transactions):
            if is_done:
                outcomes |= dict.fromkeys((change.path for change in transaction.changes), Outcome.DONE)
            else:
                left += transaction.changes
        return left

    def _commit(
        self, transactions: Iterable[_Transaction], *, at_once: int = sys.maxsize
    ) -> Iterator[tuple[_Transaction, bool]]:
        """Carry out each, and yield whether it was done; if not, a concurrent write or lost connection prevented it."""
        sent: deque[_Transaction] = deque()

        def rate_limited() -> Iterator[list[Operation]]:
            for transaction in transactions:
                self._before_write(transaction.writes)
                sent.append(transaction)
                yield transaction.operations()

        for error in self._zk.commit_each(rate_limited(), at_once=at_once, timeout_s=self._timeout_s):
            if not (error is None or isinstance(error, _CONFLICTS) or is_lost_connection(error)):
                raise error
            yield sent.popleft(), error is None

    def _read(self, paths: Iterable[str]) -> tuple[dict[str, Node], set[str]]:
        """Read the nodes in this order; return the existing ones, and the paths of those with children."""
        found = self._zk.read_many(paths, timeout_s=self._timeout_s)
        nodes = {path: Node(data, stat.version, stat.mzxid) for path, (data, stat) in found.items()}
        return nodes, {path for path, (_, stat) in found.items() if stat.numChildren}

    def _make_fences(self) -> None:
        for fence in _FENCES:
            self._zk.call(self._zk.ensure_path_async, fence, timeout_s=self._timeout_s)


def fence_of(path: str) -> str:
    """Return the node whose version is incremented when a node with that path is created."""
    return _FENCES[crc32(path.encode("utf-8", "surrogatepass")) % len(_FENCES)]


class _Above:
    """The nodes of hosts and clients that exist, or that the transactions so far create."""

    def __init__(self, seen: Container[str], made: set[str]) -> None:
        self._seen = seen
        self._made = made

    def take(self, path: str) -> list[str]:
        """Return the nodes missing above the path, topmost first; they count as existing from now on."""
        missing, end = [], path.rfind("/")
        while end > 0 and (folder := path[:end]) not in self._made and folder not in self._seen:
            missing.append(folder)
            end = path.rfind("/", 0, end)
        self._made.update(missing)
        return missing[::-1]


class _Transaction:
    """Changes of nodes that either all exist or all do not, and the creation of missing nodes ``above`` them."""

    def __init__(self, changes: Sequence[WriteIf], nodes: Mapping[str, Node], above: _Above) -> None:
        self.changes = changes
        self._nodes = nodes
        self._folders = [folder for each in changes if each.data is not None for folder in above.take(each.path)]

    @property
    def writes(self) -> int:
        return len(self.changes) + len(self._folders)

    def operations(self) -> list[Operation]:
        """Fences come first: checked if nodes are changed or removed, incremented if nodes are created."""
        fences = sorted({fence_of(change.path) for change in self.changes})
        if self.changes[0].path in self._nodes:
            guards: list[Operation] = [("check", fence, self._nodes[fence].version) for fence in fences]
        else:
            guards = [("set_data", fence, b"") for fence in fences]
        folders: list[Operation] = [("create", folder, b"") for folder in self._folders]
        return [*guards, *folders, *map(self._write, self.changes)]

    def _write(self, change: WriteIf) -> Operation:
        node = self._nodes.get(change.path)
        if node is None:
            return ("create", change.path, change.data)
        if change.data is None:
            return ("delete", change.path, node.version)
        return ("set_data", change.path, change.data, node.version)


def _creations(
    nodes: Iterable[tuple[str, bytes]], together: int, above: _Above, outcomes: dict[str, Outcome]
) -> Iterator[_Transaction]:
    """Transactions, each as soon as it is large enough; ``outcomes`` gets changes that are too large for any."""
    rest = iter(nodes)
    while some := [WriteIf(path, data, _is_missing) for path, data in islice(rest, _SORTED_TOGETHER)]:
        too_large = {change.path for change in some if _size_bytes(change) > LARGEST_NODE_BYTES}
        outcomes |= dict.fromkeys(too_large, Outcome.TOO_LARGE)
        changes = [change for change in some if change.path not in too_large] if too_large else some
        for part in _parts(sorted(changes, key=_fence_of_change), together):
            yield _Transaction(part, {}, above)


def _fence_of_change(change: WriteIf) -> str:
    return fence_of(change.path)


def _parts(changes: Iterable[WriteIf], together: int) -> Iterator[list[WriteIf]]:
    some: list[WriteIf] = []
    size_bytes = 0
    for change in changes:
        size_bytes += (more_bytes := _size_bytes(change))
        if some and (len(some) == together or size_bytes > _LARGEST_TRANSACTION_BYTES):
            yield some
            some, size_bytes = [], more_bytes
        some.append(change)
    if some:
        yield some


def _size_bytes(change: WriteIf) -> int:
    return len(change.path) + len(change.data or b"")


def _folders(path: str) -> list[str]:
    """Return the nodes that must exist above the node, topmost first."""
    folders, end = [], len(CLIENT_GROUP_ID)
    while end != -1:
        folders.append(path[:end])
        end = path.find("/", end + 1)
    return folders


def _is_missing(node: Node | None) -> bool:
    return node is None


def _applies(change: WriteIf, node: Node | None, has_children: bool) -> bool:
    if change.data is None and (node is None or has_children):
        return False
    return change.when(node)
