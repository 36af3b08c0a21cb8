"""The reconciler's actions: a pure diff between what Active coordinators hold and what ZooKeeper holds.

Every action is conditional on the exact write that was seen, so a late plan does nothing. A node is removed, or a
newer update overwritten, only if two rounds in a row found the same write to be wrong. Nodes that belong to an
``__consumer_offsets`` partition whose coordinator is not Active are left as they are: a coordinator that is loading,
or whose load failed, looks as if it had no members. Hosts and clients without registrations have no owner; their empty
nodes are removed.

A plan takes the :class:`Memory` of the previous plan and returns the next: only clients for which something changed
since are examined again. Without a memory the plan is the same. A plan is also available in parts
(:class:`Planning`): a creation needs no second round, so it need not wait until the last client was examined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter

from muster.placement.mapping.comparison import NOTHING, Held, Memory, begun, judged
from muster.placement.mapping.divergence import Aside, Difference, Divergence, Node, PartitionOf, Verdict

__all__ = ["NOTHING", "Action", "Create", "Memory", "Node", "Plan", "Planning", "RemoveIf", "SetIf", "Suspect", "plan"]

_PATH = attrgetter("path")
_UNITS_TOGETHER = 250
"""Clients and hosts in one part of a plan."""

Suspect = tuple[str, int]
"""A path and the zxid of the write that was found wrong (ZooKeeper's mzxid); a rewritten node is a new suspect."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create the node, unless it exists."""

    path: str
    data: bytes

    def applies_to(self, node: Node | None) -> bool:
        return node is None


@dataclass(frozen=True, slots=True)
class SetIf:
    """Replace the data, if it is still that write: ``version`` alone starts again at 0 when a node is re-created."""

    path: str
    data: bytes
    version: int
    mzxid: int

    def applies_to(self, node: Node | None) -> bool:
        return node is not None and (node.version, node.mzxid) == (self.version, self.mzxid)


@dataclass(frozen=True, slots=True)
class RemoveIf:
    """Remove the node, if it still holds that exact write."""

    path: str
    version: int
    mzxid: int

    @property
    def data(self) -> None:
        """The content that the node should have."""
        return None

    def applies_to(self, node: Node | None) -> bool:
        return node is not None and (node.version, node.mzxid) == (self.version, self.mzxid)


Action = Create | SetIf | RemoveIf


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions, each kind sorted by path, and the suspects for the next round."""

    creates: tuple[Create, ...]
    sets: tuple[SetIf, ...]
    removes: tuple[RemoveIf, ...]
    suspects: frozenset[Suspect]
    """Everything that needs two rounds and was found in this one, including what is removed or set now."""
    divergences: tuple[Divergence, ...]
    """All differences, whether or not this plan acts on them."""
    left_alone: tuple[Aside, ...]
    memory: Memory = field(compare=False, repr=False)

    @property
    def empty(self) -> bool:
        """Whether ZooKeeper is in the right state, as far as is known."""
        return not self.divergences


def plan(
    held: Held,
    seen: Mapping[str, Node],
    *,
    suspects: frozenset[Suspect],
    partition_of: PartitionOf,
    memory: Memory = NOTHING,
) -> Plan:
    """Return the next actions.

    ``seen``: all nodes under ``/client_group_id``, by path. ``suspects``: those of the previous plan.
    ``partition_of``: the offsets partition of a group, for nodes whose data do not contain it; must never change.
    The arguments must not be modified afterwards: an object that is identical next time is not examined again.
    """
    return Planning(held, seen, suspects=suspects, partition_of=partition_of, memory=memory).plan()


class Planning:
    """A plan in progress, with the same arguments as :func:`plan`.

    Iteration returns the plan's creations, each once, those of some clients at a time. At any point, :meth:`plan`
    returns the complete plan.
    """

    def __init__(
        self,
        held: Held,
        seen: Mapping[str, Node],
        *,
        suspects: frozenset[Suspect],
        partition_of: PartitionOf,
        memory: Memory = NOTHING,
    ) -> None:
        self.seen = seen
        self._compared, self._units = begun(memory, held, seen)
        self._judged = 0
        self._verdicts = dict(self._compared.verdicts)
        self._partition_of = partition_of
        self._actions = _Actions(seen, suspects)
        self._actions.add(self._verdicts.values())
        self._yielded = 0

    def __iter__(self) -> Iterator[list[Create]]:
        creates = self._actions.creates
        while self._yielded < len(creates) or self._judge_some():
            start, self._yielded = self._yielded, len(creates)
            yield creates[start:]

    def plan(self) -> Plan:
        """Return the complete plan."""
        while self._judge_some():
            pass
        verdicts = [self._verdicts[unit] for unit in sorted(self._verdicts)]
        actions = self._actions
        return Plan(
            creates=tuple(sorted(actions.creates, key=_PATH)),
            sets=tuple(sorted(actions.sets, key=_PATH)),
            removes=tuple(sorted(actions.removes, key=_PATH)),
            suspects=frozenset(actions.suspects),
            divergences=tuple(sorted((one for each in verdicts for one in each.divergences), key=_PATH)),
            left_alone=tuple(one for each in verdicts for one in each.left_alone),
            memory=replace(self._compared, verdicts=self._verdicts),
        )

    def _judge_some(self) -> bool:
        """Whether there was anything left to judge."""
        units = self._units[self._judged : self._judged + _UNITS_TOGETHER]
        found = judged(units, self._compared, self._partition_of)
        self._judged += len(units)
        self._verdicts |= found
        self._actions.add(found.values())
        return bool(units)


class _Actions:
    def __init__(self, seen: Mapping[str, Node], before: frozenset[Suspect]) -> None:
        self._seen = seen
        self._before = before
        self.creates: list[Create] = []
        self.sets: list[SetIf] = []
        self.removes: list[RemoveIf] = []
        self.suspects: set[Suspect] = set()

    def add(self, verdicts: Iterable[Verdict]) -> None:
        """Add the actions for these verdicts."""
        for verdict in verdicts:
            for divergence in verdict.divergences:
                self._add(divergence)

    def _add(self, divergence: Divergence) -> None:
        path, data = divergence.path, divergence.data
        if divergence.difference is Difference.MISSING:
            assert data is not None
            self.creates.append(Create(path, data))
            return
        node = self._seen[path]
        if divergence.difference is not Difference.WRONG and not self._again((path, node.mzxid)):
            return
        if data is None:
            self.removes.append(RemoveIf(path, node.version, node.mzxid))
        else:
            self.sets.append(SetIf(path, data, node.version, node.mzxid))

    def _again(self, suspect: Suspect) -> bool:
        """Record the suspicion; True if the previous round had it, too."""
        self.suspects.add(suspect)
        return suspect in self._before
