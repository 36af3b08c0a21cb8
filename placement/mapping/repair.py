"""What the reconciler has to do: a pure diff of what Active coordinators hold and what ZooKeeper holds.

Every action is conditional (the very write that was seen), so a plan that comes too late does nothing. Something is
removed, or a newer update overwritten, only if two rounds in a row found the very same write wrong; and whatever
belongs to an ``__consumer_offsets`` partition whose coordinator is not Active is left as it is: a coordinator
that is loading, or whose load failed, looks as if it had no members. Hosts and clients without registrations
belong to nobody; their empty nodes are removed.

A plan takes a :class:`Memory` of the one before and gives the next: only clients for which something changed since are
looked at again. The plan is the same without it. It can be had in parts (:class:`Planning`): a creation needs no second
round, so it need not wait until the last client was looked at.
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
"""A path and the zxid of the write that was found wrong (ZooKeeper's mzxid): re-written, it is another."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create the node, if there is none."""

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
    """Remove the node, if it is still that write."""

    path: str
    version: int
    mzxid: int

    @property
    def data(self) -> None:
        """What it should hold."""
        return None

    def applies_to(self, node: Node | None) -> bool:
        return node is not None and (node.version, node.mzxid) == (self.version, self.mzxid)


Action = Create | SetIf | RemoveIf


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, each in the order of paths, and what to be suspicious of in the next round."""

    creates: tuple[Create, ...]
    sets: tuple[SetIf, ...]
    removes: tuple[RemoveIf, ...]
    suspects: frozenset[Suspect]
    """Everything that needs two rounds, and was found in this one; also what is removed or set now."""
    divergences: tuple[Divergence, ...]
    """All differences, whether something is done about them now or not."""
    left_alone: tuple[Aside, ...]
    memory: Memory = field(compare=False, repr=False)

    @property
    def empty(self) -> bool:
        """Whether ZooKeeper is as it should be, as far as one can know."""
        return not self.divergences


def plan(
    held: Held,
    seen: Mapping[str, Node],
    *,
    suspects: frozenset[Suspect],
    partition_of: PartitionOf,
    memory: Memory = NOTHING,
) -> Plan:
    """The next actions.

    ``seen``: all nodes under ``/client_group_id``, by path. ``suspects``: those of the previous plan.
    ``partition_of``: the offsets partition of a group, for nodes whose data do not tell; always the same.
    Nothing of what is passed may be changed afterwards: what is the very same object next time is not looked through.
    """
    return Planning(held, seen, suspects=suspects, partition_of=partition_of, memory=memory).plan()


class Planning:
    """A plan in the making, of the same arguments as :func:`plan`.

    Iterated over it gives the plan's creations, each once, those of some clients at a time. However far that went,
    :meth:`plan` gives the whole.
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
        self._told = 0

    def __iter__(self) -> Iterator[list[Create]]:
        creates = self._actions.creates
        while self._told < len(creates) or self._judge_some():
            told, self._told = self._told, len(creates)
            yield creates[told:]

    def plan(self) -> Plan:
        """The whole of it."""
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
        """Whether there was still something to judge."""
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
        """What they ask for."""
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
        """Note the suspicion; True if the previous round had it too."""
        self.suspects.add(suspect)
        return suspect in self._before
