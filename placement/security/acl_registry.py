"""ACLs in ZooKeeper. Calls block like those of muster.placement.topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from muster.placement.epochs import ActorEpoch, commit_as
from muster.placement.layout import Malformed
from muster.placement.security.acl_nodes import (
    LITERAL_CHANGES,
    PREFIXED_CHANGES,
    acl_path,
    change_notification,
    decode_acls,
    encode_acls,
    parent_path,
)
from muster.placement.security.acls import (
    ANYONE,
    PATTERN_TYPES,
    RESOURCE_TYPES,
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
)
from muster.placement.zookeeper.client import ZooKeeperClient

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_NODE_BYTES = 500_000
"""The most that the ACLs of one pattern may take: with the rest of its transaction less than a packet of ZooKeeper."""
_BATCH, _BATCH_BYTES = 200, 250_000
_NOTIFIED_S = 900.0
"""How long a notification stays, as in Kafka."""
_PURGE_S = 60.0


class AclChange(NamedTuple):
    """ACLs of one pattern that are added to it, or removed from it."""

    pattern: AclPattern
    added: frozenset[Acl] = frozenset()
    removed: frozenset[Acl] = frozenset()

    def after(self, before: frozenset[Acl]) -> frozenset[Acl]:
        """Return the pattern's ACLs afterwards."""
        return (before | self.added) - self.removed


AclsByPattern = Mapping[AclPattern, frozenset[Acl]]


class AclRegistry:
    """Changes and lists ACLs. Any number of registries may exist; ZooKeeper resolves conflicts.

    With ``controller``, every change is on behalf of that controller; ``epochs.Superseded`` once it has a successor.
    """

    def __init__(
        self,
        zk: ZooKeeperClient,
        controller: ActorEpoch | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._zk = zk
        self._controller = controller
        self._monotonic_s = monotonic_s
        self._has_parents = False
        self._purged_s = -_PURGE_S

    def load(self) -> dict[AclPattern, frozenset[Acl]]:
        """All ACLs. What is malformed may have denied something, so it denies everything to all but super users."""
        zk = self._zk
        zk.call(zk.sync_async, "/")
        parents = {parent_path(style, kind): (kind, style) for style in PATTERN_TYPES for kind in RESOURCE_TYPES}
        names = zk.children_of_many(parents)
        patterns = [
            AclPattern(kind, name, style)
            for parent, (kind, style) in parents.items()
            for name in sorted(names.get(parent, ()))
        ]
        return {pattern: acls for pattern, (acls, _) in self._read(patterns).items() if acls}

    def change(self, changes: Sequence[AclChange]) -> dict[AclPattern, frozenset[Acl]]:
        """Carry out the changes, all or none, which are few (:func:`batches`). Returns what the patterns have then."""
        while True:
            self._make_parents()
            before = self._read([change.pattern for change in changes])
            after: dict[AclPattern, frozenset[Acl]] = {}
            operations: list[tuple[Any, ...]] = []
            for change in changes:
                current, version = before.get(change.pattern, (frozenset(), None))
                after[change.pattern] = wanted = change.after(current)
                if wanted != current:
                    operations += _operations(change.pattern, wanted, version)
            try:
                if operations:
                    commit_as(self._zk, self._controller, operations)
            except (BadVersionError, NodeExistsError, NoNodeError):
                self._has_parents = False
                continue  # a concurrent change came first, or the response to our own was lost
            self._purge_notifications()
            return after

    def _read(self, patterns: Iterable[AclPattern]) -> dict[AclPattern, tuple[frozenset[Acl], int]]:
        """ACLs and version of the nodes that exist."""
        found: dict[AclPattern, tuple[frozenset[Acl], int]] = {}
        for some in _chunks(patterns, lambda pattern: len(pattern.name.encode())):
            nodes = self._zk.read_many([acl_path(pattern) for pattern in some])
            for pattern in some:
                if (node := nodes.get(acl_path(pattern))) is not None:
                    found[pattern] = _decoded(pattern, node[0]), node[1].version
        return found

    def _make_parents(self) -> None:
        if self._has_parents:
            return
        zk = self._zk
        parents = [parent_path(style, kind) for style in PATTERN_TYPES for kind in RESOURCE_TYPES]
        for path in (*parents, LITERAL_CHANGES, PREFIXED_CHANGES):
            zk.call(zk.ensure_path_async, path)
        self._has_parents = True

    def _purge_notifications(self) -> None:
        """Remove those that every watcher has had time for. The oldest have the lowest numbers."""
        if self._monotonic_s() - self._purged_s < _PURGE_S:
            return
        self._purged_s = self._monotonic_s()
        zk = self._zk
        for parent, names in zk.children_of_many([LITERAL_CHANGES, PREFIXED_CHANGES]).items():
            stats = zk.read_many([f"{parent}/{name}" for name in sorted(names)])
            newest_ms = max((stat.ctime for _, stat in stats.values()), default=0)
            for path, (_, stat) in stats.items():
                if newest_ms - stat.ctime > _NOTIFIED_S * 1000:
                    with suppress(NoNodeError):
                        zk.call(zk.delete_async, path)


def size_bytes(acls: Iterable[Acl]) -> int:
    """Return the size of these ACLs of one pattern in ZooKeeper; see MAX_NODE_BYTES."""
    return len(encode_acls(acls))


def batches(changes: Iterable[AclChange], current: AclsByPattern) -> Iterator[list[AclChange]]:
    """Return the changes of ``current``, in their order, in batches as large as a transaction holds."""

    def written_bytes(change: AclChange) -> int:
        before = current.get(change.pattern, frozenset())
        return 2 * len(change.pattern.name.encode()) + size_bytes(change.after(before))

    return _chunks(changes, written_bytes)


def _chunks(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    chunk: list[T] = []
    sum_bytes = 0
    for item in items:
        item_bytes = size_of(item)
        if chunk and (len(chunk) == _BATCH or sum_bytes + item_bytes > _BATCH_BYTES):
            yield chunk
            chunk, sum_bytes = [], 0
        chunk.append(item)
        sum_bytes += item_bytes
    if chunk:
        yield chunk


def _operations(pattern: AclPattern, wanted: frozenset[Acl], version: int | None) -> list[tuple[Any, ...]]:
    path, (notification, data) = acl_path(pattern), change_notification(pattern)
    change: tuple[Any, ...]
    if version is None:
        change = ("create", path, encode_acls(wanted))
    elif wanted:
        change = ("set_data", path, encode_acls(wanted), version)
    else:
        change = ("delete", path, version)
    return [change, ("create_sequential", notification, data)]


def _decoded(pattern: AclPattern, data: bytes) -> frozenset[Acl]:
    try:
        return decode_acls(pattern, data)
    except Malformed as error:
        log.error("%s denies everything, since it is not readable: %s", acl_path(pattern), error)
        return frozenset({Acl(pattern, ANYONE, WILDCARD, AclOperation.ALL, AclPermission.DENY)})
