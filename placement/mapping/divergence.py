"""The differences between ZooKeeper and what coordinators hold, examined client by client.

Everything that belongs to one host and client id is judged independently: the registrations, the node above them, and
KoP's flat node. Beside the clients there are the nodes of hosts, which may be empty. Both are *units*: a client is
``<host>/<client id>``, a host ``<host>``, as the nodes are named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from muster.placement.layout import CLIENT_GROUP_ID, Malformed
from muster.placement.mapping.nodes import (
    decode_registration,
    encode_registration,
    group_of_path,
    is_kop_path,
    is_registration_path,
    kop_data,
    registration_path,
)
from muster.placement.mapping.registration import Registration

PartitionOf = Callable[[str], int]
"""The offsets partition of a group."""
_PATH = attrgetter("path")


@dataclass(frozen=True, slots=True)
class Node:
    """The content of ZooKeeper at a path."""

    data: bytes
    version: int
    mzxid: int


class Difference(StrEnum):
    MISSING = "missing"
    """A coordinator wants the node, and it does not exist."""
    WRONG = "wrong"
    """The node holds something else, which is not later than the coordinator's state."""
    NEWER = "newer"
    """The node holds a later update than the coordinator's."""
    STALE = "stale"
    """The node belongs to no client or group."""


@dataclass(frozen=True, slots=True)
class Divergence:
    path: str
    difference: Difference
    data: bytes | None
    """Wanted content of the node; None if it should not exist."""


@dataclass(frozen=True, slots=True)
class Aside:
    """A node that is left as it is."""

    path: str
    offsets_partition: int | None
    """The partition whose coordinator is not Active; None if the owner of the node is unknown."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for a unit; empty if everything is known to be right."""

    divergences: tuple[Divergence, ...] = ()
    left_alone: tuple[Aside, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.divergences or self.left_alone)


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A registration, its unit, and the content that its node should have, computed once."""

    registration: Registration
    path: str
    unit: str
    data: bytes

    @classmethod
    def of(cls, registration: Registration) -> Wanted:
        path = registration_path(registration)
        return cls(registration, path, unit_of(path), encode_registration(registration))


def unit_of(path: str) -> str:
    """Return the unit of a node under ``/client_group_id``; "" for nodes deeper than ours."""
    names = path.removeprefix(CLIENT_GROUP_ID).split("/")[1:]
    if len(names) == 1:
        return names[0].replace("-", "/", 1)
    return "/".join(names[:2]) if len(names) <= 3 else ""


def node_kind(path: str) -> str:
    """``registration``, ``kop`` or ``folder``, the node of a host or client."""
    if is_kop_path(path):
        return "kop"
    return "registration" if is_registration_path(path) else "folder"


def judge_host(host: str, nodes: Mapping[str, Node], *, clients: int) -> Verdict:
    """``clients``: the number of nodes under the host's node."""
    path = f"{CLIENT_GROUP_ID}/{host}"
    if clients or path not in nodes or nodes[path].data:
        return Verdict()
    return Verdict((Divergence(path, Difference.STALE, None),))


def judge_client(
    unit: str,
    wanted: Iterable[Wanted],
    nodes: Mapping[str, Node],
    *,
    trusted: Collection[int],
    partition_of: PartitionOf,
) -> Verdict:
    """``wanted`` and ``nodes`` are all of that unit; ``wanted`` only includes trusted offsets partitions."""
    judging = _Judging(nodes, trusted, partition_of)
    by_path = {one.path: one for one in wanted}
    groups = {one.registration.group for one in by_path.values()}
    held = {path: node for path, node in nodes.items() if is_registration_path(path)}
    for one in by_path.values():
        judging.want(one)
    for path in held.keys() - by_path.keys():
        groups |= judging.unwanted_registration(path)
    judging.flat(f"{CLIENT_GROUP_ID}/{unit.replace('/', '-', 1)}", groups)
    folder = f"{CLIENT_GROUP_ID}/{unit}"
    if folder in nodes and not nodes[folder].data and not held and not by_path:
        judging.stale(folder)
    return judging.verdict()


class _Judging:
    def __init__(self, nodes: Mapping[str, Node], trusted: Collection[int], partition_of: PartitionOf) -> None:
        self._nodes = nodes
        self._trusted = trusted
        self._partition_of = partition_of
        self._divergences: list[Divergence] = []
        self._left_alone: list[Aside] = []

    def want(self, one: Wanted) -> None:
        node = self._nodes.get(one.path)
        if node is None:
            self._diverges(one.path, Difference.MISSING, one.data)
        elif node.data != one.data:
            current = _held(one.path, node)
            later = current is not None and _order(current) > _order(one.registration)
            self._diverges(one.path, Difference.NEWER if later else Difference.WRONG, one.data)

    def unwanted_registration(self, path: str) -> set[str]:
        """Return the group for which the node still counts, because the group's coordinator is not trusted."""
        current = _held(path, self._nodes[path])
        owner = current.offsets_partition if current is not None else self._partition(group_of_path(path))
        if owner in self._trusted:
            self.stale(path)
            return set()
        self._left_alone.append(Aside(path, owner))
        return set() if current is None else {current.group}

    def flat(self, path: str, groups: set[str]) -> None:
        """KoP's node: holds the group if there is exactly one."""
        node = self._nodes.get(path)
        labelled = self._partition(_text(node.data)) if node is not None else None
        group = next(iter(groups)) if len(groups) == 1 else None
        if labelled is not None and labelled not in self._trusted:
            self._left_alone.append(Aside(path, labelled))
        elif group is not None and self._partition_of(group) in self._trusted:
            data = kop_data(group)
            if node is None:
                self._diverges(path, Difference.MISSING, data)
            elif node.data != data:
                self._diverges(path, Difference.WRONG, data)
        elif node is not None:
            self.stale(path)

    def stale(self, path: str) -> None:
        self._diverges(path, Difference.STALE, None)

    def verdict(self) -> Verdict:
        for some in (self._divergences, self._left_alone):
            if len(some) > 1:
                some.sort(key=_PATH)
        return Verdict(tuple(self._divergences), tuple(self._left_alone))

    def _diverges(self, path: str, difference: Difference, data: bytes | None) -> None:
        self._divergences.append(Divergence(path, difference, data))

    def _partition(self, group: str | None) -> int | None:
        return None if group is None else self._partition_of(group)


def _order(registration: Registration) -> tuple[int, int]:
    return (registration.epoch, registration.sequence)


def _held(path: str, node: Node) -> Registration | None:
    try:
        return decode_registration(path, node.data)
    except Malformed:
        return None


def _text(data: bytes) -> str | None:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
