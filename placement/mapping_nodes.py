"""Conditional writes of the client-to-group mapping, many in one transaction; calls block on ZooKeeper.

A version alone does not guard a removal, nor a change: it starts again at 0 when a node is re-created, so a late
writer that read version 0 would hit the new node. Therefore every creation moves the version of a *fence* in the
same transaction, and whatever removes or changes a node checks the fence that it read before it read the node:
nothing can have been re-created in between, so what was read is what is hit. This holds for a batch as for one
node: a batch reads its fences first, then its nodes, and is carried out as a whole or not at all.

The fences are nodes of their own (``/client_group_fences``): that of a path is one of 16 by hash, so that creations
disturb one removal in sixteen, and whoever deletes ``/client_group_id`` with all that is in it does not set their
versions back. Nodes of hosts and clients hold nothing, so it does not matter which one is removed while it is empty;
their creation moves no fence. They are made in the transaction that needs them, so nobody sees them empty before.

Nobody waits for anybody, and a transaction fails only because another one was carried out since this one read: one
that created a node, or wrote one of the very nodes. A batch that fails three times is halved, a single change that
fails five times is given up for now (``Outcome.LOST``): a call always ends, after fewer than eight attempts for each
change. Creations check no fence, so removals cannot hold them up; and since a member's node is created once,
creations come to an end, and with them what a removal can lose against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import accumulate
from typing import Any
from zlib import crc32

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from placement.layout import CLIENT_GROUP_FENCES, CLIENT_GROUP_ID
from placement.repair import Node
from placement.zookeeper import ZooKeeperClient

BATCH = 500
"""Most changes in one transaction."""
LARGEST_NODE_BYTES = 900_000
"""Of path and data. ZooKeeper closes the connection of a request above jute.maxbuffer, 1 MiB by default."""
_LARGEST_BATCH_BYTES = 400_000
_PER_CHANGE_BYTES = 400
"""Of a transaction, beside paths and data: headers, ACLs."""
_FENCES = tuple(f"{CLIENT_GROUP_FENCES}/{number:02d}" for number in range(16))
_BATCH_ATTEMPTS, _SINGLE_ATTEMPTS = 3, 5
_CONFLICTS = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)

Operation = tuple[Any, ...]


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
        """Carry out the changes, each path once, and say what became of each. Each transaction has ``batch`` at most.

        The order is kept between batches only: what has to come first belongs into an earlier call.
        """
        outcomes: dict[str, Outcome] = {}
        for some in _batches(changes, batch, outcomes):
            waiting = [some]
            while waiting:
                part = waiting.pop()
                attempts = _SINGLE_ATTEMPTS if len(part) == 1 else _BATCH_ATTEMPTS
                if any(self._attempt(part, outcomes) for _ in range(attempts)):
                    continue
                if len(part) == 1:
                    outcomes[part[0].path] = Outcome.LOST
                else:
                    half = len(part) // 2
                    waiting += [part[half:], part[:half]]
        return outcomes

    def _attempt(self, changes: Sequence[WriteIf], outcomes: dict[str, Outcome]) -> bool:
        """Read, decide and write once. False if somebody else wrote in between: then nothing was done."""
        fences = {change.path: fence_of(change.path) for change in changes}
        folders = sorted({folder for change in changes if change.data is not None for folder in _folders(change.path)})
        nodes, parents = self._read([*sorted(set(fences.values())), *folders, *fences])
        if not nodes.keys() >= set(fences.values()):
            self._make_fences()
            return False
        missing = [folder for folder in folders if folder not in nodes]
        todo = [change for change in changes if _applies(change, nodes.get(change.path), change.path in parents)]
        if todo:
            writes = _writes(todo, nodes, missing)
            self._before_write(len(writes))
            try:
                self._zk.commit([*_guards(todo, nodes, fences), *writes], timeout_s=self._timeout_s)
            except _CONFLICTS:
                return False
        outcomes.update(dict.fromkeys(fences, Outcome.NEEDLESS))
        outcomes.update(dict.fromkeys((change.path for change in todo), Outcome.DONE))
        return True

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


def _batches(changes: Iterable[WriteIf], most: int, outcomes: dict[str, Outcome]) -> Iterator[list[WriteIf]]:
    """In their order; what is too large for a transaction of its own is left out, and said so."""
    some: list[WriteIf] = []
    free_bytes = _LARGEST_BATCH_BYTES
    for change in changes:
        size_bytes = 2 * len(change.path) + len(change.data or b"")
        if size_bytes > LARGEST_NODE_BYTES:
            outcomes[change.path] = Outcome.TOO_LARGE
            continue
        free_bytes -= size_bytes + _PER_CHANGE_BYTES
        if some and (len(some) == most or free_bytes < 0):
            yield some
            some, free_bytes = [], _LARGEST_BATCH_BYTES - size_bytes - _PER_CHANGE_BYTES
        some.append(change)
    if some:
        yield some


def _folders(path: str) -> list[str]:
    """What has to exist above the node, the highest first."""
    names = path.removeprefix(CLIENT_GROUP_ID).split("/")[1:-1]
    return list(accumulate(names, "{}/{}".format, initial=CLIENT_GROUP_ID))


def _applies(change: WriteIf, node: Node | None, has_children: bool) -> bool:
    if change.data is None and (node is None or has_children):
        return False
    return change.when(node)


def _guards(todo: Iterable[WriteIf], nodes: Mapping[str, Node], fences: Mapping[str, str]) -> list[Operation]:
    """Checks before everything else, since a transaction sees its own writes; then the moves of fences."""
    checked = sorted({fences[change.path] for change in todo if change.path in nodes})
    moved = sorted({fences[change.path] for change in todo if change.path not in nodes})
    checks = [("check", fence, nodes[fence].version) for fence in checked]
    return [*checks, *(("set_data", fence, b"") for fence in moved)]


def _writes(todo: Iterable[WriteIf], nodes: Mapping[str, Node], missing: Iterable[str]) -> list[Operation]:
    needed = {folder for change in todo if change.path not in nodes for folder in _folders(change.path)}
    writes: list[Operation] = [("create", folder, b"") for folder in missing if folder in needed]
    for change in todo:
        node = nodes.get(change.path)
        if node is None:
            writes.append(("create", change.path, change.data))
        elif change.data is None:
            writes.append(("delete", change.path, node.version))
        else:
            writes.append(("set_data", change.path, change.data, node.version))
    return writes
