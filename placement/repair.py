"""What the reconciler has to do: a pure diff of what Active coordinators hold and what ZooKeeper holds.

Every action is conditional (a version), so a plan that comes too late does nothing. Something is removed, or
a newer statement overwritten, only if two rounds in a row found the very same write wrong; and whatever
belongs to an ``__consumer_offsets`` partition whose coordinator is not Active is left as it is: a coordinator
that is loading, or whose load failed, looks as if it had no members. Hosts and clients without registrations
belong to nobody; their empty nodes are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from placement.layout import Malformed
from placement.mapping import (
    decode_registration,
    encode_registration,
    group_of_path,
    is_kop_path,
    is_registration_path,
    kop_data,
    kop_path,
    registration_path,
)
from placement.registration import Registration

Suspect = tuple[str, int]
"""A path and the zxid of the write that was found wrong (ZooKeeper's mzxid): re-written, it is another."""


@dataclass(frozen=True, slots=True)
class Node:
    """What ZooKeeper holds at a path."""

    data: bytes
    version: int
    mzxid: int


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SetIf:
    """Replace the data, if the node still has that version."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class RemoveIf:
    """Remove the node, if it is still that write: ``version`` alone starts again at 0 when a node is re-created."""

    path: str
    version: int
    mzxid: int

    def still_applies(self, node: Node) -> bool:
        """Whether the node is the one that was to be removed."""
        return (node.version, node.mzxid) == (self.version, self.mzxid)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, each in the order of paths, and what to be suspicious of in the next round."""

    creates: tuple[Create, ...]
    sets: tuple[SetIf, ...]
    removes: tuple[RemoveIf, ...]
    suspects: frozenset[Suspect]

    @property
    def empty(self) -> bool:
        """Whether ZooKeeper is as it should be, as far as one can know."""
        return not (self.creates or self.sets or self.removes or self.suspects)


def plan(
    wanted: Iterable[Registration],
    seen: Mapping[str, Node],
    *,
    trusted: frozenset[int],
    suspects: frozenset[Suspect],
    partition_of: Callable[[str], int],
) -> Plan:
    """The next actions.

    ``wanted``: what the coordinators of the ``trusted`` offsets partitions hold; others' are ignored.
    ``seen``: all nodes under ``/client_group_id``, by path. ``suspects``: those of the previous plan.
    ``partition_of``: the offsets partition of a group, for nodes whose data do not tell.
    """
    mine = {registration_path(one): one for one in wanted if one.offsets_partition in trusted}
    held = {path: _held(path, node) for path, node in seen.items() if is_registration_path(path)}
    foreign = [one for one in held.values() if one is not None and one.offsets_partition not in trusted]

    round_ = _Round(seen, suspects)
    for path, registration in sorted(mine.items()):
        current = held.get(path)
        settled = current is not None and _order(current) > _order(registration)
        round_.want(path, encode_registration(registration), hesitate=settled)
    for path, current in sorted(held.items()):
        owner = current.offsets_partition if current is not None else _partition(group_of_path(path), partition_of)
        if path not in mine and owner in trusted:
            round_.unwanted(path)

    labels = _labels([*mine.values(), *foreign])
    flat = {path for path in seen if is_kop_path(path)}
    for path in sorted(flat | labels.keys()):
        group = labels.get(path)
        labelled = _partition(_text(seen[path].data), partition_of) if path in flat else None
        if labelled is not None and labelled not in trusted:
            continue
        if group is not None and partition_of(group) in trusted:
            round_.want(path, kop_data(group), hesitate=False)
        elif path in flat:
            round_.unwanted(path)
    for path in _empty_folders(seen):
        round_.unwanted(path)
    return round_.plan()


class _Round:
    def __init__(self, seen: Mapping[str, Node], suspects: frozenset[Suspect]) -> None:
        self._seen = seen
        self._before = suspects
        self._creates: list[Create] = []
        self._sets: list[SetIf] = []
        self._removes: list[RemoveIf] = []
        self._suspects: set[Suspect] = set()

    def want(self, path: str, data: bytes, *, hesitate: bool) -> None:
        node = self._seen.get(path)
        if node is None:
            self._creates.append(Create(path, data))
        elif node.data != data and (not hesitate or self._again(path, node)):
            self._sets.append(SetIf(path, data, node.version))

    def unwanted(self, path: str) -> None:
        node = self._seen[path]
        if self._again(path, node):
            self._removes.append(RemoveIf(path, node.version, node.mzxid))

    def _again(self, path: str, node: Node) -> bool:
        """Note the suspicion; True if the previous round had it too."""
        suspect = (path, node.mzxid)
        if suspect in self._before:
            return True
        self._suspects.add(suspect)
        return False

    def plan(self) -> Plan:
        return Plan(tuple(self._creates), tuple(self._sets), tuple(self._removes), frozenset(self._suspects))


def _labels(candidates: Iterable[Registration]) -> dict[str, str]:
    """KoP's nodes that should be, with the group: only where there is exactly one."""
    groups: dict[str, set[str]] = {}
    for one in candidates:
        groups.setdefault(kop_path(one.host, one.client_id), set()).add(one.group)
    return {path: next(iter(some)) for path, some in groups.items() if len(some) == 1}


def _empty_folders(seen: Mapping[str, Node]) -> list[str]:
    """Nodes of hosts and clients that lead to no registration. Removing one is harmless: it must be empty."""
    parents = {path.rpartition("/")[0] for path in seen}
    folders = [path for path, node in seen.items() if 2 <= path.count("/") <= 3 and not node.data]
    return sorted(path for path in folders if path not in parents and not is_kop_path(path))


def _order(registration: Registration) -> tuple[int, int]:
    return (registration.epoch, registration.sequence)


def _held(path: str, node: Node) -> Registration | None:
    try:
        return decode_registration(path, node.data)
    except Malformed:
        return None


def _partition(group: str | None, partition_of: Callable[[str], int]) -> int | None:
    return None if group is None else partition_of(group)


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
