"""Conditional writes of the client-to-group mapping, many in one transaction; calls block on ZooKeeper.

A version alone does not guard a removal, nor a change: it starts again at 0 when a node is re-created, so a late
writer that read version 0 would hit the new node. Therefore every creation moves the version of a *fence* in the
same transaction, and whatever removes or changes a node checks the fence that it read before it read the node:
nothing can have been re-created in between, so what was read is what is hit. This holds for a transaction of many
nodes as of one: all fences are read first, then the nodes, and it is carried out as a whole or not at all.

The fences are nodes of their own (``/client_group_fences``): that of a path is one of 16 by hash, so that creations
disturb one removal in sixteen, and whoever deletes ``/client_group_id`` with all that is in it does not set their
versions back. Nodes of hosts and clients hold nothing, so it does not matter which one is removed while it is empty;
their creation moves no fence. They are made in the transaction that needs them, so nobody sees them empty before.

Many changes are read with one request and then sent as several transactions without waiting in between. ZooKeeper keeps
the last 500 transactions in memory, so they are small. It carries out a session's requests in their order: those that
check fences go first, so that a call does not disturb itself. A creation needs no reading: it fails by itself where
there is a node (:meth:`MappingNodes.create`). So creations are sent as they come, those that share a fence together: to
move a fence costs ZooKeeper as much as to create a node.

Nobody waits for anybody, and a transaction fails only because another one was carried out since this one read: one
that created a node, or wrote one of the very nodes. What was in it is read and tried again: three times together, then
five times each change by itself, and then it is given up for now (``Outcome.LOST``). So a call always ends. Creations
check no fence, so removals cannot hold them up; and since a member's node is created once, creations come to an end,
and with them what a removal can lose against.
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
from muster.placement.zookeeper.client import ZooKeeperClient, is_lost_connection
from muster.placement.zookeeper.multi import Operation

BATCH = 500
"""Most changes that are under way at once."""
LARGEST_NODE_BYTES = 900_000
"""Of path and data. ZooKeeper closes the connection of a request above jute.maxbuffer, 1 MiB by default."""
CREATED_AT_ONCE = 5_000
"""Most nodes whose creation is under way at once."""
_SORTED_TOGETHER = 1_000
"""Creations that are gathered, to send those of one fence together."""
_TOGETHER, _CREATED_TOGETHER = 50, 100
"""Changes, creations, in one transaction, if they have no more than so many bytes:"""
_LARGEST_TRANSACTION_BYTES = 64_000
_FENCES = tuple(f"{CLIENT_GROUP_FENCES}/{number:02d}" for number in range(16))
_ATTEMPTS = (_TOGETHER, _TOGETHER, _TOGETHER, 1, 1, 1, 1, 1)
"""How many changes are together in each."""
_CONFLICTS = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)


@dataclass(frozen=True, slots=True)
class WriteIf:
    """What a node should hold (``data``), or that it should not be (None), if ``when`` holds for what it is now.

    ``when`` gets the node, or None where there is none, and may be asked more than once.
    """

    path: str
    data: bytes | None
    when: Callable[[Node | None], bool]


class Outcome(Enum):
    DONE = auto()
    NEEDLESS = auto()
    """``when`` did not hold, or there is nothing to remove, or what should go has children."""
    LOST = auto()
    """Others wrote too often meanwhile; nothing was done, and it may be tried again."""
    TOO_LARGE = auto()
    """ZooKeeper would not take it."""


class MappingNodes:
    """All calls raise ZooKeeperUnreachable after ``timeout_s``, and then may or may not have been done."""

    def __init__(
        self, zk: ZooKeeperClient, *, timeout_s: float, before_write: Callable[[int], None] = lambda _: None
    ) -> None:
        """``before_write`` is called before each transaction with the number of nodes that it writes."""
        self._zk = zk
        self._timeout_s = timeout_s
        self._before_write = before_write

    def read(self, path: str) -> Node | None:
        """The node, or None."""
        return self._read([path])[0].get(path)

    def apply(self, changes: Iterable[WriteIf], *, batch: int = BATCH) -> dict[str, Outcome]:
        """Carry out the changes, each path once, and say what became of each; ``batch`` are under way at most.

        In no certain order: what has to come first belongs into an earlier call.
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
        """Create the nodes that are missing, each path once, and say what became of each.

        They are sent while ``nodes`` are taken, ``batch`` of them in one transaction at most. Nothing is read first: of
        the nodes above, those that are not in ``seen`` are created too; where anything was seen, the root is there.
        What turns out to be otherwise costs a reading, as in :meth:`apply`. Only where nothing was seen, there may be
        no fences yet: they are looked for, and made.
        """
        outcomes: dict[str, Outcome] = {}
        left: list[WriteIf] = []
        together = min(batch, _CREATED_TOGETHER)
        above = _Above(seen, {CLIENT_GROUP_ID} if seen else set())
        creations = _creations(nodes, together, above, outcomes)

        def hopeful() -> Iterator[_Transaction]:
            """As long as not all have failed: then what was seen is out of date."""
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
        """Read, decide and write once. What is left: somebody else wrote in between, or the connection was lost."""
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
        """Carry out each, and say whether it was; if not, somebody else wrote meanwhile, or the connection was lost."""
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
        """Those of the nodes that exist, read in this order, and which of them have children."""
        found = self._zk.read_many(paths, timeout_s=self._timeout_s)
        nodes = {path: Node(data, stat.version, stat.mzxid) for path, (data, stat) in found.items()}
        return nodes, {path for path, (_, stat) in found.items() if stat.numChildren}

    def _make_fences(self) -> None:
        for fence in _FENCES:
            self._zk.ask(self._zk.ensure_path_async, fence, timeout_s=self._timeout_s)


def fence_of(path: str) -> str:
    """The node whose version moves whenever a node with that path is created."""
    return _FENCES[crc32(path.encode("utf-8", "surrogatepass")) % len(_FENCES)]


class _Above:
    """The nodes of hosts and clients that are there, or are made by the transactions so far."""

    def __init__(self, seen: Container[str], made: set[str]) -> None:
        self._seen = seen
        self._made = made

    def take(self, path: str) -> list[str]:
        """Those that are missing above the path, the highest first; they are missing no more."""
        missing, end = [], path.rfind("/")
        while end > 0 and (folder := path[:end]) not in self._made and folder not in self._seen:
            missing.append(folder)
            end = path.rfind("/", 0, end)
        self._made.update(missing)
        return missing[::-1]


class _Transaction:
    """Changes of nodes that all exist, or all do not; and the creation of what is missing ``above`` them."""

    def __init__(self, changes: Sequence[WriteIf], nodes: Mapping[str, Node], above: _Above) -> None:
        self.changes = changes
        self._nodes = nodes
        self._folders = [folder for each in changes if each.data is not None for folder in above.take(each.path)]

    @property
    def writes(self) -> int:
        return len(self.changes) + len(self._folders)

    def operations(self) -> list[Operation]:
        """Fences first: checked if nodes are changed or removed, moved if they are created."""
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
    """As soon as there are enough of them; ``outcomes`` gets what is too large for any."""
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
    """What has to exist above the node, the highest first."""
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
