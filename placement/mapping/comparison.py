"""A record of past comparisons. It lets the reconciler's next plan examine only clients for which something changed.

A :class:`Memory` is a value: each is made from the one before, and shares its unchanged parts. It does not depend on
the steps that led to it (tests/placement/test_repair_history.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.placement.mapping.divergence import Node, PartitionOf, Verdict, Wanted, judge_client, judge_host, unit_of
from muster.placement.mapping.registration import Registration

Held = Mapping[int, tuple[Registration, ...]]
"""Registrations and members held by the coordinators, by offsets partition. A missing partition is not trusted."""
_Identity = tuple[str, str, str, str | None]
"""Group, member id, host and client id of a registration's node."""


@dataclass(frozen=True, slots=True)
class Memory:
    held: Held
    seen: Mapping[str, Node]
    wanted_of: Mapping[int, Mapping[_Identity, Wanted]]
    """The content of ``held``, by offsets partition."""
    wanted: Mapping[str, tuple[Wanted, ...]]
    """Nodes that should exist, by unit."""
    paths: Mapping[str, tuple[str, ...]]
    """The content of ``seen``, by unit."""
    clients: Mapping[str, int]
    """The number of nodes under the node of each host."""
    verdicts: Mapping[str, Verdict]
    """By unit, without empty verdicts."""


NOTHING = Memory({}, {}, {}, {}, {}, {}, {})
"""Nothing has been compared yet."""


def begun(memory: Memory, held: Held, seen: Mapping[str, Node]) -> tuple[Memory, list[str]]:
    """Compare these two, starting from ``memory``; return the new memory and the units still to be judged."""
    changed: set[str] = set()
    if held.keys() != memory.held.keys():  # which partitions to trust affects everything that is not in order
        changed.update(memory.verdicts.keys())
    wanted_of, wanted = _with_held(memory, held, changed)
    paths, clients = _with_seen(memory, seen, changed)
    verdicts = {unit: verdict for unit, verdict in memory.verdicts.items() if unit not in changed}
    return Memory(dict(held), seen, wanted_of, wanted, paths, clients, verdicts), sorted(changed)


def judged(units: Iterable[str], compared: Memory, partition_of: PartitionOf) -> dict[str, Verdict]:
    """Return the verdicts that are not empty."""
    return {unit: verdict for unit in units if (verdict := _judged(unit, compared, partition_of))}


def _judged(unit: str, compared: Memory, partition_of: PartitionOf) -> Verdict:
    nodes = {path: compared.seen[path] for path in compared.paths.get(unit, ())}
    if "/" not in unit:
        return judge_host(unit, nodes, clients=compared.clients.get(unit, 0))
    wanted = compared.wanted.get(unit, ())
    return judge_client(unit, wanted, nodes, trusted=compared.held.keys(), partition_of=partition_of)


def _with_held(
    memory: Memory, held: Held, changed: set[str]
) -> tuple[Mapping[int, Mapping[_Identity, Wanted]], Mapping[str, tuple[Wanted, ...]]]:
    """By partition and by unit. Adds the affected units to ``changed``."""
    by_partition = dict(memory.wanted_of)
    come: defaultdict[str, list[Wanted]] = defaultdict(list)
    gone: set[Wanted] = set()
    for partition in memory.held.keys() | held.keys():
        if held.get(partition) is memory.held.get(partition):
            continue
        before = memory.wanted_of.get(partition, {})
        now = by_partition[partition] = _identified(partition, held.get(partition, ()), before)
        for identity, one in now.items():
            if before.get(identity) is not one:
                come[one.unit].append(one)
        gone.update(one for identity, one in before.items() if now.get(identity) is not one)
    concerned = come.keys() | {one.unit for one in gone}
    if not concerned:
        return by_partition, memory.wanted
    changed.update(concerned)
    by_unit = dict(memory.wanted)
    for unit in concerned:
        stays = [one for one in by_unit.pop(unit, ()) if one not in gone]
        if some := stays + come.get(unit, []):
            by_unit[unit] = tuple(some)
    return by_partition, by_unit


def _identified(
    partition: int, registrations: Iterable[Registration], before: Mapping[_Identity, Wanted]
) -> Mapping[_Identity, Wanted]:
    """Reuses the objects of ``before`` that are equal."""
    found = {}
    for one in registrations:
        if one.offsets_partition != partition:
            continue
        identity = (one.group, one.member_id, one.host, one.client_id)
        known = before.get(identity)
        found[identity] = known if known is not None and known.registration == one else Wanted.of(one)
    return found


def _with_seen(
    memory: Memory, seen: Mapping[str, Node], changed: set[str]
) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, int]]:
    """Paths by unit, and clients by host. Adds the affected units to ``changed``."""
    if seen is memory.seen:
        return memory.paths, memory.clients
    before = memory.seen
    written = [path for path, node in seen.items() if before.get(path) is not node]
    changed.update(unit for path in written if (unit := unit_of(path)))
    come = [path for path in written if path not in before]
    gone = set() if len(before) + len(come) == len(seen) else before.keys() - seen.keys()
    if not come and not gone:
        return memory.paths, memory.clients
    if len(gone) > len(seen):
        return _sorted_anew(memory, seen, changed)
    return _paths(memory.paths, come, gone, changed), _clients(memory.clients, come, gone, changed)


def _sorted_anew(
    memory: Memory, seen: Mapping[str, Node], changed: set[str]
) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, int]]:
    """Like :func:`_with_seen`, if fewer nodes are left than were removed; units with new nodes were added already."""
    paths = _paths({}, seen, set(), set())
    clients = _clients({}, seen, (), set())
    changed.update(unit for unit, some in memory.paths.items() if len(paths.get(unit, ())) < len(some))
    hosts = clients.keys() | memory.clients.keys()
    changed.update(host for host in hosts if clients.get(host, 0) != memory.clients.get(host, 0))
    return paths, clients


def _paths(
    before: Mapping[str, tuple[str, ...]], come: Iterable[str], gone: set[str], changed: set[str]
) -> Mapping[str, tuple[str, ...]]:
    more: defaultdict[str, list[str]] = defaultdict(list)
    for path in come:
        more[unit_of(path)].append(path)
    concerned = (more.keys() | {unit_of(path) for path in gone}) - {""}
    changed.update(concerned)
    paths = dict(before)
    for unit in concerned:
        stay = [path for path in paths.pop(unit, ()) if path not in gone]
        if some := stay + more.get(unit, []):
            paths[unit] = tuple(some)
    return paths


def _clients(
    before: Mapping[str, int], come: Iterable[str], gone: Iterable[str], changed: set[str]
) -> Mapping[str, int]:
    more = Counter(_host_of_client(path) for path in come)
    more.subtract(Counter(_host_of_client(path) for path in gone))
    del more[""]
    changed.update(more.keys())
    clients = dict(before)
    for host, count in more.items():
        clients[host] = clients.get(host, 0) + count
    return clients


def _host_of_client(path: str) -> str:
    """Return the host if the path is a client's, else ""."""
    names = path.split("/")
    return names[2] if len(names) == 4 else ""
