"""Conditional writes of the client-to-group mapping; calls block on ZooKeeper.

A version alone does not guard a removal: it starts again at 0 when a node is re-created, so a late deleter
that read version 0 would hit the new node. Therefore every creation under ``/client_group_id`` moves the
version of ``/client_group_id`` itself, in the same transaction, and every removal checks that version: what
was read before the removal is what is removed.
"""

from __future__ import annotations

from collections.abc import Callable

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from placement.layout import CLIENT_GROUP_ID
from placement.repair import Node
from placement.zookeeper import ZooKeeperClient


class MappingNodes:
    """All calls raise ZooKeeperUnreachable after ``timeout_s``, and then may or may not have been done."""

    def __init__(self, zk: ZooKeeperClient, *, timeout_s: float) -> None:
        self._zk = zk
        self._timeout_s = timeout_s

    def read(self, path: str) -> Node | None:
        """The node, or None."""
        try:
            data, stat = self._zk.ask(self._zk.get_async, path, timeout_s=self._timeout_s)
        except NoNodeError:
            return None
        return Node(data, stat.version, stat.mzxid)

    def create(self, path: str, data: bytes) -> bool:
        """Create the node, and its parents. False if it exists."""
        while True:
            try:
                self._zk.commit([("set_data", CLIENT_GROUP_ID, b""), ("create", path, data)], timeout_s=self._timeout_s)
            except NodeExistsError:
                return False
            except NoNodeError:  # a parent is missing, or was just removed because it was empty
                parent = path.rpartition("/")[0]
                self._zk.ask(self._zk.ensure_path_async, parent, timeout_s=self._timeout_s)
                continue
            return True

    def set_if(self, path: str, data: bytes, version: int) -> bool:
        """Replace the node's data. False if it has another version or is gone."""
        try:
            self._zk.ask(self._zk.set_async, path, data, version=version, timeout_s=self._timeout_s)
        except (BadVersionError, NoNodeError):
            return False
        return True

    def remove_if(self, path: str, condition: Callable[[Node], bool]) -> bool:
        """Remove the node if the condition holds for what it is now. False if not, or if it has children."""
        while (root := self.read(CLIENT_GROUP_ID)) and (node := self.read(path)) and condition(node):
            try:
                self._zk.commit(
                    [("check", CLIENT_GROUP_ID, root.version), ("delete", path, node.version)],
                    timeout_s=self._timeout_s,
                )
            except (BadVersionError, NoNodeError):
                continue  # something was created, or this node changed: look again
            except NotEmptyError:
                return False
            return True
        return False
