"""ZooKeeper's tree as the reconciler sees it, written by the reconciler's own plan, with ZooKeeper's conditions."""

from __future__ import annotations

from collections.abc import Iterable

from muster.placement.mapping.nodes import kop_path
from muster.placement.mapping.registration import Registration
from muster.placement.mapping.repair import NOTHING, Create, Node, Plan, RemoveIf, SetIf, Suspect, plan

OFFSETS_PARTITION = 7


class MappingModel:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._suspects: frozenset[Suspect] = frozenset()
        self._memory = NOTHING
        self._zxid = 0

    def write(self, path: str, data: bytes) -> None:
        """Write unconditionally, as another client; parents are created."""
        parent = path.rpartition("/")[0]
        while parent.count("/") > 1 and parent not in self.nodes:
            self._set(parent, b"")
            parent = parent.rpartition("/")[0]
        self._set(path, data)

    def sweep(self, wanted: Iterable[Registration], *, trusted: bool = True, rounds: int = 2) -> Plan:
        """Run rounds of the reconciler; return the last plan."""
        for _ in range(rounds):
            todo = self.planned(wanted, trusted=trusted)
            self.carry_out(todo)
        return todo

    def planned(self, wanted: Iterable[Registration], *, trusted: bool = True) -> Plan:
        """Return the reconciler's plan now.

        ``trusted``: the coordinator is Active, so its registrations were queried.
        """
        return plan(
            {OFFSETS_PARTITION: tuple(wanted)} if trusted else {},
            dict(self.nodes),
            suspects=self._suspects,
            partition_of=lambda group: OFFSETS_PARTITION,
            memory=self._memory,
        )

    def carry_out(self, todo: Plan) -> None:
        """Execute each action that still applies."""
        changes: tuple[Create | SetIf | RemoveIf, ...] = (*todo.creates, *todo.sets, *todo.removes)
        for change in changes:
            if not change.applies_to(self.nodes.get(change.path)):
                continue
            if change.data is not None:
                self.write(change.path, change.data)
            elif not any(path.startswith(f"{change.path}/") for path in self.nodes):
                del self.nodes[change.path]
        self._suspects, self._memory = todo.suspects, todo.memory

    def registered(self) -> set[str]:
        """Names of the registrations' nodes."""
        return {path.rpartition("/")[2] for path in self.nodes if path.count("/") == 4}

    def kop_label(self, host: str, client_id: str | None) -> str | None:
        """Return the group in KoP's own flat node."""
        node = self.nodes.get(kop_path(host, client_id))
        return None if node is None else node.data.decode()

    def _set(self, path: str, data: bytes) -> None:
        self._zxid += 1
        before = self.nodes.get(path)
        self.nodes[path] = Node(data, 0 if before is None else before.version + 1, self._zxid)
