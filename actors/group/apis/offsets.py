"""OffsetCommit (8), OffsetFetch (9) and OffsetDelete (47), and the cleanup after a deleted topic.

OffsetCommit v2-4 retention time in the request | v6 leader epoch | v9 GROUP_ID_NOT_FOUND for an unknown group
OffsetFetch v2 fetch all | v7 require_stable | v8 several groups | v9 member epoch, which only consumer groups check

Offsets are stored as they are sent: backwards, beyond the end of the log, negative.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import compress, repeat

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE
from muster.actors.group.codec.records import NO_TIMESTAMP as NO_STATE_TIMESTAMP
from muster.actors.group.codec.records import CommittedOffset
from muster.actors.group.consumer import commits
from muster.actors.group.errors import ApiError
from muster.actors.group.events import CommittedPartition, OffsetsCommitted, OffsetsDeleted
from muster.actors.group.membership import check_member, meet
from muster.actors.group.messages import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    CommitTopic,
    FetchedGroup,
    FetchedOffset,
    FetchedTopic,
    FetchTopic,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetDeleteResponse,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchResponse,
    PartitionError,
    TopicErrors,
    failed_fetch,
)
from muster.actors.group.shard import Shard
from muster.actors.group.simple import saw_commit
from muster.actors.group.state import Group, GroupState
from muster.actors.group.types import GroupId, Token, maker
from muster.placement.client import Context
from muster.placement.mapping.registration import TopicOffsets

GROUP_ID_NOT_FOUND_FROM = 9
MAX_METADATA_BYTES = 32_767
"""The maximum for a string of the record, regardless of ``offset.metadata.max.bytes``."""

new_offset = maker(CommittedOffset)
new_errors = maker(TopicErrors)
new_event = maker(OffsetsCommitted)
new_response = maker(OffsetCommitResponse)
_NO_OFFSET = CommittedOffset(NO_OFFSET, commit_timestamp_ms=NO_STATE_TIMESTAMP)


def commit(shard: Shard, request: OffsetCommit, context: Context, token: Token) -> None:
    """Store the offsets; the response waits for the log. Raises ApiError.

    A commit of nothing stores nothing. Without membership, it says which group the client reads for, also beside
    members.
    """
    if not request.topics and request.generation_id < 0:
        saw_commit(shard, request.group_id, context, ())
        shard.reply(token, new_response(((), 0)))
        return
    group, consumer = shard.groups.get(request.group_id), shard.consumer_group(request.group_id)
    if consumer is not None:
        commits.check(shard, consumer, request, context)
    else:
        _check_commit(shard, group, request, context)
    topics: list[TopicErrors] = []
    committed: list[CommittedPartition] = []
    for topic in request.topics:
        errors, accepted = check_topic(shard, topic)
        topics.append(errors)
        if accepted.partitions:
            if group is None and consumer is None:
                group = create_simple(shard, request.group_id)
            committed += _commit(shard, request, accepted)
    by_member = request.generation_id >= 0
    if committed:
        generation, member_id = (request.generation_id, request.member_id) if by_member else (None, None)
        of_event = (request.group_id, generation, member_id, context.client_id, context.host, tuple(committed))
        shard.report_when_durable(new_event(of_event))
    if not by_member and not _has_members(shard, request.group_id):
        saw_commit(shard, request.group_id, context, committed)
    shard.reply_when_durable(token, request, new_response((tuple(topics), 0)))


def fetch(shard: Shard, request: OffsetFetch, context: Context, token: Token) -> None:
    """Return committed offsets: with ``require_stable`` the newest, once durable; else those durable now."""
    response = OffsetFetchResponse(
        groups=tuple(_fetch_group(shard, group, request.require_stable) for group in request.groups)
    )
    for wanted, fetched in zip(request.groups, response.groups, strict=True):
        _say_position(shard, wanted, fetched, context)
    if request.require_stable:
        shard.reply_when_durable(token, request, response)
    else:
        shard.reply(token, response)


def delete(shard: Shard, request: OffsetDelete, token: Token) -> None:
    """Remove committed offsets of topics that the group is not subscribed to. Raises ApiError."""
    group, consumer = shard.groups.get(request.group_id), shard.consumer_group(request.group_id)
    if group is None and consumer is None:
        raise ApiError(ErrorCode.group_id_not_found)
    if group is not None and group.state is not GroupState.EMPTY and group.protocol_type != PROTOCOL_TYPE:
        raise ApiError(ErrorCode.non_empty_group)
    if consumer is not None:
        subscribed = {*consumer.subscribed_topics()}
    else:
        subscribed = {topic for topic, _ in request.topics if group is not None and group.is_subscribed(topic)}
    topics = tuple(
        _delete_topic(shard, request.group_id, topic, partitions, is_subscribed=topic in subscribed)
        for topic, partitions in request.topics
    )
    shard.reply_when_durable(token, request, OffsetDeleteResponse(topics=topics))


def topics_deleted(shard: Shard, topics: Collection[str]) -> None:
    """Remove every offset of these topics, subscribed or not. Groups stay."""
    for group_id in [*shard.hard.known_groups()]:
        doomed = [partition for partition in shard.hard.partitions(group_id) if partition[0] in topics]
        if doomed:
            _remove(shard, group_id, doomed)


def _check_commit(shard: Shard, group: Group | None, request: OffsetCommit, context: Context) -> None:
    """Check who may commit. A member that may is alive. Raises ApiError."""
    has_generation = request.generation_id >= 0
    if group is None:
        if has_generation:
            newer = request.api_version >= GROUP_ID_NOT_FOUND_FROM
            raise ApiError(ErrorCode.group_id_not_found if newer else ErrorCode.illegal_generation)
        return
    if not has_generation and group.state is GroupState.EMPTY:
        return
    if not has_generation and not request.member_id and request.group_instance_id is None:
        raise ApiError(ErrorCode.unknown_member_id)
    member = check_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.illegal_generation)
    if group.state is GroupState.COMPLETING_REBALANCE:
        raise ApiError(ErrorCode.rebalance_in_progress)
    meet(shard, group, member, context)
    shard.arm_session(group, member)


def _has_members(shard: Shard, group_id: GroupId) -> bool:
    group, consumer = shard.groups.get(group_id), shard.consumer_group(group_id)
    return bool((group and group.members) or (consumer and consumer.members))


def _commit(shard: Shard, request: OffsetCommit, topic: CommitTopic) -> Iterable[CommittedPartition]:
    """Append the offsets of a topic."""
    indexes, offsets = topic.partitions, topic.offsets
    if len({*indexes}) < len(indexes):  # a later one replaces an earlier one
        single = [CommitTopic.of(topic.name, [row]) for row in topic.rows()]
        return [committed for each in single for committed in _commit(shard, request, each)]
    at_ms = shard.now_ms
    texts = [metadata or "" for metadata in topic.metadata]
    expire_ms = None if request.retention_ms is None else at_ms + request.retention_ms
    # A record with an expire timestamp has no leader epoch.
    leader_epochs = topic.leader_epochs if expire_ms is None else repeat(NO_LEADER_EPOCH)
    fields = zip(offsets, repeat(at_ms), leader_epochs, texts, repeat(expire_ms))
    before = shard.append_offsets(request.group_id, topic.name, indexes, [*map(new_offset, fields)])
    offsets_before = [known and known.offset for known in before]
    return zip(repeat(topic.name), indexes, offsets_before, offsets)


def check_topic(shard: Shard, topic: CommitTopic) -> tuple[TopicErrors, CommitTopic]:
    """Return the errors of all partitions, and the partitions without one."""
    name, indexes = topic.name, topic.partitions
    if name and not any(topic.metadata):
        return new_errors((name, tuple(map(_no_error, indexes)), topic.topic_id)), topic
    if name:
        errors = [_check_metadata(shard, metadata) for metadata in topic.metadata]
    else:
        errors = [ErrorCode.unknown_topic_id] * len(indexes)
    accepted = compress(topic.rows(), [error is ErrorCode.none for error in errors])
    of_partitions = tuple(map(PartitionError, indexes, errors))
    return TopicErrors(name, of_partitions, topic.topic_id), CommitTopic.of(name, accepted)


@lru_cache(maxsize=4096)
def _no_error(partition: int) -> PartitionError:
    return PartitionError(partition, ErrorCode.none)


def _check_metadata(shard: Shard, metadata: str | None) -> ErrorCode:
    if not metadata:
        return ErrorCode.none
    utf16_units = len(metadata.encode("utf-16-be", "surrogatepass")) // 2
    if utf16_units > shard.config.offset_metadata_max_bytes or len(metadata.encode()) > MAX_METADATA_BYTES:
        return ErrorCode.offset_metadata_too_large
    return ErrorCode.none


def create_simple(shard: Shard, group_id: GroupId) -> Group:
    """Create a group that only stores offsets. It has no record, and exists as long as its offsets do."""
    group = Group(id=group_id, state_since_ms=NO_STATE_TIMESTAMP, creation_pending=True)
    shard.groups[group_id] = group

    def written() -> None:
        group.creation_pending = False

    def failed(error: ErrorCode) -> None:
        if shard.groups.get(group_id) is group and group.is_simple and not shard.hard.has_offsets(group_id):
            del shard.groups[group_id]

    shard.follow(written, failed)
    return group


def _fetch_group(shard: Shard, wanted: OffsetFetchGroup, require_stable: bool) -> FetchedGroup:
    group_id = wanted.group_id
    consumer = shard.consumer_group(group_id)
    if consumer is not None and (error := commits.fetch_error(consumer, wanted)) is not None:
        return failed_fetch(wanted, error)
    known = shard.hard.offsets(group_id) if require_stable else shard.committed_offsets(group_id)
    if wanted.topics is None:
        topics = tuple(_all_of(known))
    else:
        topics = tuple([_fetch_topic(known, topic) for topic in wanted.topics])
    pending = shard.hard.pending.of_group(group_id)
    if require_stable and pending:
        topics = tuple([_without_unstable(topic, pending.keys()) for topic in topics])
    return FetchedGroup(group_id=group_id, topics=topics)


def _all_of(known: dict[tuple[str, int], CommittedOffset]) -> Iterator[FetchedTopic]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(known):
        by_topic.setdefault(topic, []).append(index)
    for topic, indexes in by_topic.items():
        yield _fetch_topic(known, FetchTopic(name=topic, partitions=tuple(indexes)))


def _fetch_topic(known: dict[tuple[str, int], CommittedOffset], topic: FetchTopic) -> FetchedTopic:
    name, partitions = topic.name, topic.partitions
    if not name or not partitions or not known:
        return FetchedTopic.without_offsets(topic, ErrorCode.none if name else ErrorCode.unknown_topic_id)
    found = map(known.get, zip(repeat(name), partitions), repeat(_NO_OFFSET))
    offsets, _, leader_epochs, metadata, _ = zip(*found, strict=True)
    return FetchedTopic(name, topic.topic_id, partitions, offsets, leader_epochs, metadata)


def _without_unstable(topic: FetchedTopic, pending: Collection[tuple[str, int]]) -> FetchedTopic:
    """Return the topic with UNSTABLE_OFFSET_COMMIT for partitions with a pending offset (KIP-447)."""
    unstable = frozenset([index for index in topic.indexes if (topic.name, index) in pending])
    if not unstable:
        return topic
    rows = [FetchedOffset(row.partition_index) if row.partition_index in unstable else row for row in topic.partitions]
    indexes, offsets, leader_epochs, metadata, _ = zip(*rows, strict=True)
    return FetchedTopic(topic.name, topic.topic_id, indexes, offsets, leader_epochs, metadata, unstable=unstable)


def _say_position(shard: Shard, wanted: OffsetFetchGroup, fetched: FetchedGroup, context: Context) -> None:
    """Where a consumer of the group will begin. A fetch of all is not by a consumer: consumers name partitions."""
    if wanted.topics is None:
        return
    topics: list[TopicOffsets] = []
    for topic in fetched.topics:
        indexes, offsets = topic.indexes, topic.offsets
        if min(offsets, default=NO_OFFSET) < 0:
            has_offset = [offset >= 0 for offset in offsets]
            indexes, offsets = tuple(compress(indexes, has_offset)), tuple(compress(offsets, has_offset))
        if indexes:
            topics.append((topic.name, indexes, offsets))
    if topics:
        shard.say(shard.registry.answered(wanted.group_id, context, tuple(topics), member_id=wanted.member_id))


def _delete_topic(
    shard: Shard, group: GroupId, topic: str, partitions: tuple[int, ...], *, is_subscribed: bool
) -> TopicErrors:
    error = ErrorCode.none
    if is_subscribed:
        error = ErrorCode.group_subscribed_to_topic
    else:
        _remove(shard, group, [(topic, index) for index in partitions])
    return TopicErrors(
        name=topic, partitions=tuple(PartitionError(partition_index=index, error_code=error) for index in partitions)
    )


def _remove(shard: Shard, group_id: GroupId, partitions: Collection[tuple[str, int]]) -> None:
    removed = shard.append_offset_tombstones(group_id, partitions)
    if removed:
        event = OffsetsDeleted(group=group_id, partitions=removed)
        shard.follow(lambda: shard.report(event), lambda error: None)
