"""ZooKeeper's tree as the reconciler sees it, written by the reconciler's own plan, with ZooKeeper's conditions."""

from __future__ import annotations

from collections.abc import Iterable

from placement.mapping import kop_path
from placement.registration import Registration
from placement.repair import Node, Plan, Suspect, plan

OFFSETS_PARTITION = 7


class MappingModel:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._suspects: frozenset[Suspect] = frozenset()
        self._zxid = 0

    def write(self, path: str, data: bytes) -> None:
        """Somebody writes unconditionally; parents are made."""
        parent = path.rpartition("/")[0]
        while parent.count("/") > 1 and parent not in self.nodes:
            self._set(parent, b"")
            parent = parent.rpartition("/")[0]
        self._set(path, data)

    def sweep(self, wanted: Iterable[Registration], *, trusted: bool = True, rounds: int = 2) -> Plan:
        """Rounds of the reconciler; the last plan."""
        for _ in range(rounds):
            todo = self.planned(wanted, trusted=trusted)
            self.carry_out(todo)
        return todo

    def planned(self, wanted: Iterable[Registration], *, trusted: bool = True) -> Plan:
        """What the reconciler would do now; ``trusted``: the coordinator is Active."""
        return plan(
            wanted,
            self.nodes,
            trusted=frozenset((OFFSETS_PARTITION,)) if trusted else frozenset(),
            suspects=self._suspects,
            partition_of=lambda group: OFFSETS_PARTITION,
        )

    def carry_out(self, todo: Plan) -> None:
        """Each action, if its condition holds now."""
        for create in todo.creates:
            if create.path not in self.nodes:
                self.write(create.path, create.data)
        for change in todo.sets:
            if change.path in self.nodes and self.nodes[change.path].version == change.version:
                self._set(change.path, change.data)
        for remove in todo.removes:
            node = self.nodes.get(remove.path)
            if node is not None and remove.still_applies(node):
                del self.nodes[remove.path]
        self._suspects = todo.suspects

    def registered(self) -> set[str]:
        """Names of the registrations' nodes."""
        return {path.rpartition("/")[2] for path in self.nodes if path.count("/") == 4}

    def kop_label(self, host: str, client_id: str | None) -> str | None:
        """What KoP's own flat node says."""
        node = self.nodes.get(kop_path(host, client_id))
        return None if node is None else node.data.decode()

    def _set(self, path: str, data: bytes) -> None:
        self._zxid += 1
        before = self.nodes.get(path)
        self.nodes[path] = Node(data, 0 if before is None else before.version + 1, self._zxid)
