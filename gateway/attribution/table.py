"""Registrations as a gateway holds them: which groups may be behind a (host, client id), and what they own.

The coordinators' updates are the only source, never ZooKeeper or connections: a lost coordinator or client changes
nothing here (F1, F2, F14). A coordinator that restarts sends everything again (:meth:`replace`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from muster.gateway.attribution.claims import Comparisons
from muster.gateway.attribution.positions import Positions
from muster.gateway.attribution.slot import ClientKey, Slot, Tenure
from muster.placement.mapping.registration import Change, Kind, Position, Registration, Withdrawal

GRACE_MS = 30_000
"""How long after a reassignment the previous owner still counts: its Fetch may be in flight (F31)."""
MEMORY_MS = 60_000
"""How much longer ended tenures are remembered, to judge bytes that wait for evidence; at least their wait."""
HEAR_MS = 2_000
"""How long coordinators may take to confirm that they have sent everything."""
TOMBSTONES = 50_000

_Order = tuple[int, int]
_MemberKey = tuple[str, str]


@dataclass(slots=True)
class _Partition:
    """State of the updates of one ``__consumer_offsets`` partition."""

    epoch: int = -1
    """The highest epoch seen."""
    floor: _Order = (-1, -1)
    """Updates of unknown members up to this one are obsolete: withdrawn, or not in the last snapshot."""
    members: set[_MemberKey] = field(default_factory=set)


class RegistrationTable:
    """The candidates per (host, client id).

    Of two updates about one (group, member), the one with the higher (epoch, sequence) counts, in whichever order they
    arrive. Withdrawals leave tombstones. If there are more than ``tombstones``, the oldest becomes a floor for its
    whole partition: a late registration may then be lost until the next snapshot, but never resurrects a member that
    left. ``now_ms`` is one wall clock throughout, that of the samples.
    """

    def __init__(self, *, grace_ms: int = GRACE_MS, memory_ms: int = MEMORY_MS, tombstones: int = TOMBSTONES) -> None:
        self._grace_ms = grace_ms
        self._memory_ms = memory_ms
        self._max_tombstones = tombstones
        self._slots: dict[ClientKey, Slot] = {}
        self._ending: set[ClientKey] = set()
        """Keys that will have something to prune."""
        self._members: dict[_MemberKey, tuple[_Order, Registration]] = {}
        self._tombstones: dict[_MemberKey, tuple[_Order, int]] = {}
        self._partitions: dict[int, _Partition] = {}
        self._principals: dict[str, Counter[str | None]] = {}
        """By group: the number of registrations of each principal."""
        self._hosts: dict[str | None, set[str]] = {}
        """By client id: the hosts that have candidates with it."""
        self.comparisons = Comparisons()
        self.changes = 0
        """Grows with every change of any :meth:`version`."""
        self.positions = Positions(memory_ms=memory_ms)
        self.heard_ms = -1
        """All that coordinators had sent by then has been applied."""
        self.is_informed = False
        """Whether coordinators are queried whenever a connection begins to fetch."""

    def __len__(self) -> int:
        """Return the number of current registrations."""
        return len(self._members)

    def __iter__(self) -> Iterator[Registration]:
        return (registration for _, registration in self._members.values())

    def slot(self, host: str, client_id: str | None) -> Slot | None:
        """Return the candidates of that key, including those that left a short time ago; None if there are none."""
        return self._slots.get((host, client_id))

    def hosts(self, client_id: str | None) -> Collection[str]:
        """Return the hosts of clients with that id, now or a short time ago."""
        return self._hosts.get(client_id, ())

    def may_be_of(self, group: str, principal: str) -> bool:
        """Whether the group has a registered client that may be of that principal."""
        owners = self._principals.get(group)
        return owners is not None and (principal in owners or None in owners)

    def version(self, host: str, client_id: str | None) -> int:
        """Return a number that changes with the candidates of that key; 0 while it has none."""
        slot = self._slots.get((host, client_id))
        return 0 if slot is None else slot.version

    def apply(self, update: Change | Position, now_ms: int) -> frozenset[ClientKey]:
        """Apply one update. Returns the keys whose candidates changed. A stale update changes nothing."""
        if isinstance(update, Position):
            return self._add_position(update, now_ms)
        order = (update.epoch, update.sequence)
        member = (update.group, update.member_id)
        partition = self._partition(update.offsets_partition)
        if order <= self._known_order(member, partition):
            return frozenset()
        partition.epoch = max(partition.epoch, update.epoch)
        if isinstance(update, Withdrawal):
            changed = self._remove(member, now_ms, left=update.left)
            self._bury(member, order, update.offsets_partition)
            return changed
        return self._put(update, order, now_ms, since_ms=now_ms)

    def heard(self, sent_ms: int) -> None:
        """Record that everything that coordinators had sent by then has been applied: what still comes is later."""
        self.heard_ms = max(self.heard_ms, sent_ms)

    def may_hear_of(self, at_ms: int, now_ms: int) -> bool:
        """Whether updates from before that time, when coordinators were queried, may be on their way; not for long."""
        return self.is_informed and self.heard_ms < at_ms and now_ms - at_ms < HEAR_MS

    def touch(self, key: ClientKey) -> None:
        """Have all verdicts on that key given again: something other than its candidates changed."""
        if key in self._slots:
            self.changes += 1
            self._slots[key].version = self.changes

    def replace(
        self,
        offsets_partition: int,
        epoch: int,
        registrations: Iterable[Registration],
        now_ms: int,
        *,
        sequence: int | None = None,
    ) -> frozenset[ClientKey]:
        """Apply a snapshot: all registrations of that partition, as after a (re)connect to its coordinator.

        Members that it does not name are withdrawn. It is ignored if a newer epoch (or, with ``sequence``, a newer
        snapshot of the same one) was seen before. ``sequence`` is the last one that the snapshot includes; an update
        beyond it that came first remains. Without it, the snapshot counts as newer than all that came before.
        Returns the keys whose candidates changed.
        """
        partition = self._partition(offsets_partition)
        if epoch < partition.epoch or (sequence is not None and (epoch, sequence) < partition.floor):
            return frozenset()
        partition.epoch = epoch
        stated = {(r.group, r.member_id): r for r in registrations}
        changed: set[ClientKey] = set()
        for member in partition.members - stated.keys():
            order = self._members[member][0]
            if sequence is None or order <= (epoch, sequence):
                changed |= self._remove(member, now_ms)
                self._bury(member, order, offsets_partition)
        for member, registration in stated.items():
            order = max((registration.epoch, registration.sequence), (epoch, 0))
            known = (
                self._members[member][0] if member in self._members else self._tombstones.get(member, ((-1, -1),))[0]
            )
            if order > known:
                changed |= self._put(registration, order, now_ms, since_ms=0)
        last = max((r.sequence for r in stated.values()), default=-1) if sequence is None else sequence
        partition.floor = max(partition.floor, (epoch, last))
        return frozenset(changed)

    def prune(self, now_ms: int) -> None:
        """Forget tenures that ended too long ago to be needed. Call it every few seconds."""
        self.positions.prune(now_ms)
        before_ms = now_ms - self._grace_ms - self._memory_ms
        for key in list(self._ending):
            slot = self._slots[key]
            slot.prune(before_ms)
            if not slot.ending:
                self._ending.discard(key)
            if slot.empty:
                self.changes += 1
                del self._slots[key]
                self._hosts[key[1]].discard(key[0])
                if not self._hosts[key[1]]:
                    del self._hosts[key[1]]

    def _partition(self, offsets_partition: int) -> _Partition:
        return self._partitions.setdefault(offsets_partition, _Partition())

    def _known_order(self, member: _MemberKey, partition: _Partition) -> _Order:
        known = self._members.get(member)
        if known is not None:
            return known[0]
        buried = self._tombstones.get(member)
        return partition.floor if buried is None else max(buried[0], partition.floor)

    def _add_position(self, position: Position, now_ms: int) -> frozenset[ClientKey]:
        partition = self._partition(position.offsets_partition)
        if position.epoch < partition.epoch:
            return frozenset()
        self.positions.add(position, now_ms)
        key = (position.host, position.client_id)
        self.touch(key)
        return frozenset((key,))

    def _put(self, registration: Registration, order: _Order, now_ms: int, *, since_ms: int) -> frozenset[ClientKey]:
        member = (registration.group, registration.member_id)
        key = (registration.host, registration.client_id)
        known = self._members[member][1] if member in self._members else None
        changed: set[ClientKey] = set()
        before = None if known is None else known.principal
        if known is not None:
            if registration.principal is None:
                registration = registration._replace(principal=known.principal)
            elif known.principal is None:
                known = known._replace(principal=registration.principal)
                self._slots[known.host, known.client_id].reveal(member, registration.principal)
                changed.add((known.host, known.client_id))
        if known is None or before != registration.principal:
            if known is not None:
                self._count(known.group, before, -1)
            self._count(registration.group, registration.principal, 1)
        self._members[member] = (order, registration)
        self._tombstones.pop(member, None)
        self._partition(registration.offsets_partition).members.add(member)
        if known is None or _claims(known) != _claims(registration):
            if known is not None:
                self._end((known.host, known.client_id), member, now_ms)
                changed.add((known.host, known.client_id))
            slot = self._slots.setdefault(key, Slot(self._grace_ms, self.comparisons))
            is_member = registration.kind is Kind.MEMBER
            heard_ms = self.heard_ms if since_ms else -1
            slot.begin(member, Tenure(registration.partitions, is_member, since_ms, registration.principal, heard_ms))
            self._hosts.setdefault(key[1], set()).add(key[0])
            changed.add(key)
        self._touch(changed)
        return frozenset(changed)

    def _count(self, group: str, principal: str | None, sign: int) -> None:
        owners = self._principals.setdefault(group, Counter())
        owners[principal] += sign
        if not owners[principal]:
            del owners[principal]
            if not owners:
                del self._principals[group]

    def _remove(self, member: _MemberKey, now_ms: int, *, left: bool = False) -> frozenset[ClientKey]:
        known = self._members.pop(member, None)
        if known is None:
            return frozenset()
        registration = known[1]
        key = (registration.host, registration.client_id)
        self._count(registration.group, registration.principal, -1)
        self._partition(registration.offsets_partition).members.discard(member)
        self._end(key, member, now_ms, left=left)
        self._touch((key,))
        return frozenset((key,))

    def _end(self, key: ClientKey, member: _MemberKey, now_ms: int, *, left: bool = False) -> None:
        self._slots[key].end(member, now_ms, left=left)
        self._ending.add(key)

    def _touch(self, keys: Iterable[ClientKey]) -> None:
        for key in keys:
            self.changes += 1
            self._slots[key].changed(self.changes)

    def _bury(self, member: _MemberKey, order: _Order, offsets_partition: int) -> None:
        self._tombstones.pop(member, None)
        self._tombstones[member] = (order, offsets_partition)
        if len(self._tombstones) > self._max_tombstones:
            oldest = next(iter(self._tombstones))
            folded, folded_partition = self._tombstones.pop(oldest)
            partition = self._partition(folded_partition)
            partition.floor = max(partition.floor, folded)


def _claims(registration: Registration) -> tuple[object, ...]:
    """Return the parts of a registration that matter to attribution."""
    return (
        registration.host,
        registration.client_id,
        registration.principal,
        registration.kind,
        registration.partitions,
    )
