"""Clients' knowledge of committed offsets, and so what the coordinator may return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.records import CommittedOffset, OffsetKey, decode_key
from muster.actors.group.messages import (
    DeleteGroups,
    DeleteGroupsResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetDeleteResponse,
    OffsetFetch,
    OffsetFetchResponse,
    Response,
    WriteTxnMarker,
    WriteTxnMarkerResponse,
)
from muster.actors.group.types import GroupId, Token
from tests.simulation.actor import Received, Step, StepKind
from tests.simulation.log import SimulatedLog, decoded

CommitKey = tuple[GroupId, str, int]
E = ErrorCode
PERHAPS = {
    E.coordinator_not_available,
    E.not_coordinator,
    E.coordinator_load_in_progress,
    E.unknown_server_error,
}
"""Errors that leave it open whether the write happened."""


@dataclass(slots=True, eq=False)
class Change:
    """One commit or deletion (offset None) of one partition's offset."""

    offset: int | None
    at_ms: int
    expires_ms: int | None = None


NOTHING = Change(None, 0)


class KnownOffsets:
    """Per partition of a group: the last certain change, then the possible ones, in order.

    A response without error, and any response that shows the value, makes a change certain. A refusal removes it. A
    change with an outcome unknown to the client stays until the next certain one.
    """

    def __init__(self) -> None:
        self.changes: dict[CommitKey, list[Change]] = {}
        self.acknowledged = 0
        self.ended = 0
        """Markers that were acknowledged."""
        self._open: dict[Token, list[tuple[CommitKey, Change]]] = {}
        self._readable: dict[Token, dict[CommitKey, list[Change]]] = {}
        self.unstable: frozenset[CommitKey] = frozenset()
        """The partitions with a pending offset, in the log or in flight to it."""
        self._unstable_then: dict[Token, frozenset[CommitKey]] = {}

    def note(self, step: Step, log: SimulatedLog) -> None:
        self.unstable = frozenset(map(_key, log.live.pending_keys()))
        if step.kind is StepKind.REQUEST and not step.loading and step.received is not None:
            self._note_request(step.received, step.now_ms, log)
        elif step.kind is StepKind.TOPICS_DELETED:
            for key in [key for key in self.changes if key[1] in step.topics]:
                self._add(key, Change(None, step.now_ms))
        elif step.kind is StepKind.LOADED:
            self._open.clear()
            self._readable.clear()
            self._unstable_then.clear()
        for received, response in step.answered:
            self._note_response(received, response)

    def unstable_then(self, received: Received) -> frozenset[CommitKey]:
        """Return the partitions with a pending offset when that OffsetFetch arrived."""
        return self._unstable_then.get(received.token, frozenset())

    def allowed(self, key: CommitKey) -> list[Change]:
        """Return the possible current states of that partition."""
        return self.changes.get(key, [NOTHING])

    def settle(self, key: CommitKey, offset: int | None) -> None:
        """Settle a seen value: everything before the first change to it is obsolete."""
        changes = self.changes.get(key, [])
        at = next((index for index, change in enumerate(changes) if change.offset == offset), 0)
        del changes[:at]

    def settle_for_good(self, key: CommitKey, offset: int | None) -> None:
        """Settle a known value: no change is in flight."""
        self.settle(key, offset)
        del self.changes[key][1:]

    def expired(self, key: CommitKey, now_ms: int) -> None:
        """Note that the offset expired and was removed, at least in memory."""
        self._add(key, Change(None, now_ms))

    def readable_then(self, received: Received, key: CommitKey) -> list[Change]:
        """Return the changes that were readable when that OffsetFetch arrived."""
        return self._readable.get(received.token, {}).get(key, [NOTHING])

    def _note_request(self, received: Received, now_ms: int, log: SimulatedLog) -> None:
        request = received.request
        opened: list[tuple[CommitKey, Change]] = []
        match request:
            case OffsetCommit():
                expires_ms = None if request.retention_ms is None else now_ms + request.retention_ms
                for topic in request.topics:
                    for partition, offset in zip(topic.partitions, topic.offsets, strict=True):
                        key = (request.group_id, topic.name, partition)
                        opened.append((key, Change(offset, now_ms, expires_ms)))
            case OffsetDelete():
                for name, indices in request.topics:
                    opened += [((request.group_id, name, index), Change(None, now_ms)) for index in indices]
            case DeleteGroups():
                opened += [(key, Change(None, now_ms)) for key in self.changes if key[0] in request.groups]
            case WriteTxnMarker():
                for key_bytes, value_bytes in log.live.committed if received.write is not None else ():
                    value = decoded(key_bytes, value_bytes)[1]
                    assert isinstance(value, CommittedOffset)
                    opened.append((_key(key_bytes), Change(value.offset, value.commit_timestamp_ms)))
            case OffsetFetch():
                self._unstable_then[received.token] = self.unstable
                groups = {group.group_id for group in request.groups}
                self._readable[received.token] = {
                    k: [*changes] for k, changes in self.changes.items() if k[0] in groups
                }
        if opened:
            self._open[received.token] = opened
            for key, change in opened:
                self._add(key, change)

    def _note_response(self, received: Received, response: Response) -> None:
        if isinstance(response, OffsetFetchResponse):
            return
        errors = dict(_errors(received, response))
        if isinstance(response, WriteTxnMarkerResponse) and response.error_code is E.none:
            self.ended += 1
        for key, change in self._open.pop(received.token, ()):
            error = errors.get(key, errors.get((key[0], "", -1), E.none))
            if isinstance(response, WriteTxnMarkerResponse):
                error = response.error_code
            if error is E.none:
                self.acknowledged += 1
                self._certain(key, change)
            elif error not in PERHAPS:
                self._take_out(key, change)

    def _add(self, key: CommitKey, change: Change) -> None:
        self.changes.setdefault(key, [NOTHING]).append(change)

    def _certain(self, key: CommitKey, change: Change) -> None:
        changes = self.changes[key]
        if change in changes:
            del changes[: changes.index(change)]

    def _take_out(self, key: CommitKey, change: Change) -> None:
        changes = self.changes[key]
        if change in changes:
            changes.remove(change)


def _key(key_bytes: bytes) -> CommitKey:
    key = decode_key(key_bytes)
    assert isinstance(key, OffsetKey)
    return key.group, key.topic, key.partition


def _errors(received: Received, response: Response) -> Iterator[tuple[CommitKey, ErrorCode]]:
    """Error per partition; the error of a whole group has topic "" and partition -1."""
    match response:
        case OffsetCommitResponse():
            group = received.request.group_id  # type: ignore[union-attr]
            yield from _per_partition(group, response.topics)
        case OffsetDeleteResponse():
            group = received.request.group_id  # type: ignore[union-attr]
            yield (group, "", -1), response.error_code
            yield from _per_partition(group, response.topics)
        case DeleteGroupsResponse():
            for result in response.results:
                yield (result.group_id, "", -1), result.error_code


def _per_partition(group: GroupId, topics: Iterable[object]) -> Iterator[tuple[CommitKey, ErrorCode]]:
    for topic in topics:
        for partition in topic.partitions:  # type: ignore[attr-defined]
            yield (group, topic.name, partition.partition_index), partition.error_code  # type: ignore[attr-defined]
