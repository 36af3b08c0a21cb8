"""A ZooKeeper of one server: a tree of nodes with versions, sessions that expire, and recursive watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetData,
    Transaction,
)
from kazoo.protocol.states import ZnodeStat

from muster.placement.zookeeper.multi import MultiRead

CREATED, DELETED, CHANGED = 1, 2, 3
SESSION_MS = 10_000
_EPHEMERAL = 1
_GET_DATA = 4


@dataclass(slots=True)
class ZNode:
    data: bytes
    czxid: int
    mzxid: int
    owner: int = 0
    """The session of an ephemeral node; 0 for other nodes."""
    version: int = 0
    children: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class Session:
    id: int
    heard_ms: int
    ephemerals: dict[str, None] = field(default_factory=dict)


Changed = Callable[[int, str, bytes | None, bytes | None], None]
"""Kind of event, path, data before and after."""


class ZooKeeperServer:
    """Executes one request after the other; has no network and no clock of its own."""

    def __init__(self, now_ms: Callable[[], int], changed: Changed) -> None:
        self.nodes: dict[str, ZNode] = {"/": ZNode(b"", 0, 0)}
        self.sessions: dict[int, Session] = {}
        self.watches: dict[tuple[object, str], Callable[[int, str], None]] = {}
        """Recursive watches, by connection and root."""
        self._now_ms = now_ms
        self._changed = changed
        self._zxid = 0
        self._session_ids = 0

    # Sessions.

    def open_session(self) -> int:
        self._session_ids += 1
        self.sessions[self._session_ids] = Session(self._session_ids, self._now_ms())
        return self._session_ids

    def hear(self, session_id: int) -> bool:
        """Keep the session alive. False if it does not exist any more."""
        session = self.sessions.get(session_id)
        if session is not None:
            session.heard_ms = self._now_ms()
        return session is not None

    def expire(self) -> list[int]:
        """End the sessions that have timed out, and return them."""
        ended = [each.id for each in self.sessions.values() if self._now_ms() - each.heard_ms > SESSION_MS]
        for session_id in ended:
            self.close_session(session_id)
        return ended

    def close_session(self, session_id: int) -> None:
        session = self.sessions.pop(session_id, None)
        for path in [*session.ephemerals] if session else []:
            if path in self.nodes:
                self._delete(path)

    # Requests.

    def do(self, request: Any, session_id: int) -> Any:
        """Execute the request and return its result. Raises KazooException."""
        match request:
            case Transaction():
                return self._transaction([*request.operations], session_id)
            case MultiRead():
                return [self._read(request.kind, path) for path in request.paths]
            case GetData():
                node = self._node(request.path)
                return node.data, self._stat(node)
            case Exists():
                found = self.nodes.get(request.path)
                return None if found is None else self._stat(found)
            case GetChildren():
                return [*self._node(request.path).children]
            case _:
                self._check(request)
                return self._write(request, session_id)

    def _transaction(self, operations: list[Any], session_id: int) -> list[Any]:
        """All or none. Each operation is checked in the state that the previous ones would leave."""
        copy = {path: _copied(node) for path, node in self.nodes.items()} if len(operations) > 1 else None
        said: list[tuple[int, str, bytes | None, bytes | None]] = []
        notify, self._changed = self._changed, lambda *change: said.append(change)
        watches, self.watches = self.watches, {}
        zxid = self._zxid
        results: list[Any] = []
        failed: KazooException | None = None
        try:
            for operation in operations:
                self._check(operation)
                results.append(self._write(operation, session_id))
        except KazooException as error:
            failed = error
        finally:
            self._changed, self.watches = notify, watches
        if failed is not None:
            if copy is not None:
                self.nodes, self._zxid = copy, zxid
            at = len(results)
            return [failed if number == at else RolledBackError() for number in range(len(operations))]
        for change in said:
            self._say(*change)
        return results

    def _read(self, kind: int, path: str) -> Any:
        node = self.nodes.get(path)
        if node is None:
            return None
        return (node.data, self._stat(node)) if kind == _GET_DATA else [*node.children]

    def _check(self, request: Any) -> None:
        if isinstance(request, Create):
            if request.path in self.nodes:
                raise NodeExistsError
            if self._node(_parent(request.path)).owner:
                raise NoChildrenForEphemeralsError
            return
        node = self._node(request.path)
        if request.version not in (-1, node.version):
            raise BadVersionError
        if isinstance(request, Delete) and node.children:
            raise NotEmptyError

    def _write(self, request: Any, session_id: int) -> Any:
        if isinstance(request, CheckVersion):
            return True
        if isinstance(request, Delete):
            self._delete(request.path)
            return True
        self._zxid += 1
        if isinstance(request, Create):
            owner = session_id if request.flags & _EPHEMERAL else 0
            self.nodes[request.path] = ZNode(request.data, self._zxid, self._zxid, owner)
            self.nodes[_parent(request.path)].children[request.path.rpartition("/")[2]] = None
            if owner:
                self.sessions[session_id].ephemerals[request.path] = None
            self._say(CREATED, request.path, None, request.data)
            return request.path
        if not isinstance(request, SetData):
            raise NotImplementedError(repr(request))
        node = self.nodes[request.path]
        before, node.data = node.data, request.data
        node.version += 1
        node.mzxid = self._zxid
        self._say(CHANGED, request.path, before, request.data)
        return self._stat(node)

    def _delete(self, path: str) -> None:
        self._zxid += 1
        node = self.nodes.pop(path)
        del self.nodes[_parent(path)].children[path.rpartition("/")[2]]
        if node.owner in self.sessions:
            self.sessions[node.owner].ephemerals.pop(path, None)
        self._say(DELETED, path, node.data, None)

    def _say(self, kind: int, path: str, before: bytes | None, after: bytes | None) -> None:
        self._changed(kind, path, before, after)
        for (_, root), notify in [*self.watches.items()]:
            if path == root or path.startswith(f"{root}/"):
                notify(kind, path)

    def _node(self, path: str) -> ZNode:
        if path not in self.nodes:
            raise NoNodeError
        return self.nodes[path]

    @staticmethod
    def _stat(node: ZNode) -> ZnodeStat:
        size, children = len(node.data), len(node.children)
        return ZnodeStat(node.czxid, node.mzxid, 0, 0, node.version, 0, 0, node.owner, size, children, node.czxid)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _copied(node: ZNode) -> ZNode:
    return ZNode(node.data, node.czxid, node.mzxid, node.owner, node.version, dict(node.children))
