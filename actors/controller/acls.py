"""How the controller changes ACLs: in ZooKeeper, then published to all actors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from muster.actors.controller.admin import AclOutcome
from muster.actors.controller.changes import NOT_BEGUN, UNKNOWN, Changes
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.security.acl_registry import (
    MAX_NODE_BYTES,
    AclChange,
    AclRegistry,
    AclsByPattern,
    batches,
    size_bytes,
)
from muster.placement.security.acls import Acl, AclFilter, AclPattern, Acls
from muster.placement.zookeeper.client import ZooKeeperUnreachable

_TOO_MANY = f"The ACLs of one resource pattern take more than {MAX_NODE_BYTES} bytes."
_Failure = tuple[int, str]


class AclsAdmin:
    """``acls`` is what ZooKeeper had at :meth:`load`, and what was changed since: no other process changes it.

    While ZooKeeper is unavailable, changes fail with REQUEST_TIMED_OUT in bounded time, and each says whether it may
    have been done. Once ZooKeeper is available again, everything is read again.
    """

    def __init__(self, registry: AclRegistry, changed: Callable[[], None]) -> None:
        """Call ``changed`` after every change."""
        self.acls = Acls()
        self._by_pattern: AclsByPattern = {}
        self._registry = registry
        self._changed = changed
        self._changes = Changes("ACLs", self._read, changed)

    def load(self) -> None:
        """Read all of them. Blocks. Raises ZooKeeperUnreachable."""
        self._set(self._registry.load())

    def _set(self, by_pattern: AclsByPattern) -> None:
        self._by_pattern = {pattern: acls for pattern, acls in by_pattern.items() if acls}
        self.acls = Acls(acl for acls in self._by_pattern.values() for acl in acls)

    async def create(self, acls: Sequence[Acl]) -> list[AclOutcome]:
        """Create those that do not exist yet. Outcomes are in order; those of one pattern have the same."""
        async with self._changes.turn() as has_turn:
            if not has_turn:
                return [AclOutcome(acl, *_timed_out(self._changes.busy)) for acl in acls]
            added = _grouped(acls)
            large = {pattern for pattern, some in added.items() if self._is_too_large(pattern, some)}
            changes = [AclChange(each, added=some) for each, some in added.items() if each not in large]
            failed = {pattern: (int(ErrorCode.invalid_request), _TOO_MANY) for pattern in large}
            failed |= await self._carry_out(changes)
            return [AclOutcome(acl, *failed.get(acl.pattern, ())) for acl in acls]

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[AclOutcome]]:
        """Delete the ACLs that match. Outcomes are in the order of the filters; each ACL is under the first of them."""
        async with self._changes.turn() as has_turn:
            matching = await self._changes.in_thread(partial(self._matching, filters))
            if not has_turn:
                return [[AclOutcome(acl, *_timed_out(self._changes.busy)) for acl in acls] for acls in matching]
            removed = _grouped(acl for acls in matching for acl in acls)
            failed = await self._carry_out([AclChange(each, removed=some) for each, some in removed.items()])
            return [[AclOutcome(acl, *failed.get(acl.pattern, ())) for acl in acls] for acls in matching]

    def _matching(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        left = dict(self._by_pattern)
        found = []
        for wanted in filters:
            patterns = [pattern for pattern in left if wanted.matches_pattern(pattern)]
            matching = {pattern: frozenset(filter(wanted.matches, left[pattern])) for pattern in patterns}
            left.update({pattern: left[pattern] - acls for pattern, acls in matching.items()})
            found.append(sorted(acl for acls in matching.values() for acl in acls))
        return found

    def _is_too_large(self, pattern: AclPattern, added: frozenset[Acl]) -> bool:
        return size_bytes(self._by_pattern.get(pattern, frozenset()) | added) > MAX_NODE_BYTES

    async def _carry_out(self, changes: Sequence[AclChange]) -> dict[AclPattern, _Failure]:
        """Make the changes in ZooKeeper, and publish them. The patterns for which that failed."""
        failed: dict[AclPattern, _Failure] = {}
        done: dict[AclPattern, frozenset[Acl]] = {}
        try:
            for batch in batches(changes, self._by_pattern):
                if failed:
                    failed |= {change.pattern: _timed_out(NOT_BEGUN) for change in batch}
                    continue
                try:
                    done |= await self._changes.in_thread(partial(self._registry.change, batch))
                except ZooKeeperUnreachable:
                    failed |= {change.pattern: _timed_out(UNKNOWN) for change in batch}
        finally:  # those that were made must be in force
            await self._publish(done)
            if failed:
                self._changes.reload_soon()
        return failed

    async def _publish(self, done: AclsByPattern) -> None:
        if any(self._by_pattern.get(pattern, frozenset()) != acls for pattern, acls in done.items()):
            await self._changes.in_thread(partial(self._set, {**self._by_pattern, **done}))
            self._changed()

    async def _read(self) -> None:
        await self._changes.in_thread(self.load)


def _grouped(acls: Iterable[Acl]) -> dict[AclPattern, frozenset[Acl]]:
    grouped: dict[AclPattern, set[Acl]] = {}
    for acl in acls:
        grouped.setdefault(acl.pattern, set()).add(acl)
    return {pattern: frozenset(some) for pattern, some in grouped.items()}


def _timed_out(why: str) -> _Failure:
    return int(ErrorCode.request_timed_out), why
