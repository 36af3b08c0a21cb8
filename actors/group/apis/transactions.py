"""TxnOffsetCommit (28), and the markers that end transactions in this partition (WriteTxnMarkers, 27).

TxnOffsetCommit v2 leader epoch | v3 generation, member and instance (KIP-447) | v4 TRANSACTION_ABORTABLE |
v5 adds the partition to the transaction (KIP-890), which is not visible here

Before the core gets a TxnOffsetCommit, the transaction coordinator has confirmed that the partition is in the
producer's transaction. The request comes from a producer, which is a client of its own: its connection and client id
say nothing about the consumer, so no registration changes, and no session is extended (as in Kafka).
"""

from __future__ import annotations

from itertools import repeat

from kio.schema.errors import ErrorCode

from muster.actors.group.apis.offsets import check_topic, create_simple, new_offset
from muster.actors.group.codec.records import CommittedOffset, OffsetKey
from muster.actors.group.consumer import commits
from muster.actors.group.errors import ApiError
from muster.actors.group.events import CommittedPartition, OffsetsCommitted
from muster.actors.group.membership import check_member
from muster.actors.group.messages import (
    CommitTopic,
    TxnOffsetCommit,
    TxnOffsetCommitResponse,
    WriteTxnMarker,
    WriteTxnMarkerResponse,
)
from muster.actors.group.shard import Committer, Shard
from muster.actors.group.state import Group, GroupState
from muster.actors.group.types import GroupId, Producer, Token
from muster.placement.client import Context


def commit(shard: Shard, request: TxnOffsetCommit, context: Context, token: Token) -> None:
    """Store the offsets as pending; the response waits for the log. Raises ApiError."""
    group, consumer = shard.groups.get(request.group_id), shard.consumer_group(request.group_id)
    if consumer is not None:
        commits.check_transactional(shard, consumer, request)
    else:
        _check_commit(group, request)
    checked = [check_topic(shard, topic) for topic in request.topics]
    topics = tuple([errors for errors, _ in checked])
    accepted = [topic for _, topic in checked if topic.partitions]
    if accepted:
        if group is None and consumer is None:
            create_simple(shard, request.group_id)
        for topic in accepted:
            _append(shard, request, topic)
        by_member = request.generation_id >= 0
        committer = Committer(
            generation=request.generation_id if by_member else None,
            member_id=request.member_id if by_member else None,
            client_id=context.client_id,
            host=context.host,
        )
        _set_committer(shard, request, committer)
    shard.reply_when_durable(token, request, TxnOffsetCommitResponse(topics=topics))


def end(shard: Shard, request: WriteTxnMarker, token: Token) -> None:
    """End the producer's transaction; the response waits for the log.

    A marker of a producer without pending offsets is written, too: its epoch locks out older producers.
    """
    producer_id = request.marker.producer.producer_id
    groups = dict.fromkeys([key.group for key in shard.hard.pending.keys_of(producer_id)])
    committers = dict(shard.committers.get(producer_id, {}))
    committed = shard.append_marker(request.marker)
    events = [_event(group, committers.get(group), committed) for group in groups]

    def written() -> None:
        for group, committer in committers.items():
            _forget_committer(shard, producer_id, group, committer)
        for event in events:
            if event.partitions:
                shard.report(event)

    shard.follow(written, lambda error: None)
    shard.reply_when_durable(token, request, WriteTxnMarkerResponse())


def _set_committer(shard: Shard, request: TxnOffsetCommit, committer: Committer) -> None:
    """Remember who commits, until the producer's transaction ends."""
    producer_id, group = request.producer_id, request.group_id
    shard.committers.setdefault(producer_id, {})[group] = committer

    def failed(error: ErrorCode) -> None:
        if all(key.group != group for key in shard.hard.pending.keys_of(producer_id)):
            _forget_committer(shard, producer_id, group, committer)

    shard.follow(lambda: None, failed)


def _forget_committer(shard: Shard, producer_id: int, group: GroupId, committer: Committer) -> None:
    """Unless there is a later one."""
    own = shard.committers.get(producer_id, {})
    if own.get(group) is committer:
        del own[group]
        if not own:
            del shard.committers[producer_id]


def _check_commit(group: Group | None, request: TxnOffsetCommit) -> None:
    """Check who may commit: as OffsetCommit, but in every state of the group. Raises ApiError."""
    has_generation = request.generation_id >= 0
    if group is None:
        if has_generation:
            raise ApiError(ErrorCode.illegal_generation)
        return
    if not has_generation and group.state is GroupState.EMPTY:
        return
    if has_generation or request.member_id or request.group_instance_id is not None:
        check_member(group, request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise ApiError(ErrorCode.illegal_generation)


def _append(shard: Shard, request: TxnOffsetCommit, topic: CommitTopic) -> None:
    """Append the offsets of a topic. Of several for one partition the last counts."""
    texts = [metadata or "" for metadata in topic.metadata]
    fields = zip(topic.offsets, repeat(shard.now_ms), topic.leader_epochs, texts, repeat(None))
    producer = Producer(request.producer_id, request.producer_epoch)
    shard.append_pending(producer, request.group_id, topic.name, topic.partitions, [*map(new_offset, fields)])


def _event(
    group: GroupId,
    committer: Committer | None,
    committed: list[tuple[OffsetKey, CommittedOffset | None, CommittedOffset]],
) -> OffsetsCommitted:
    """Return the event of a group whose offsets are now committed. The committer is not known after a restart."""
    generation, member_id, client_id, host = committer or Committer(None, None, None, "")
    partitions: tuple[CommittedPartition, ...] = tuple(
        (key.topic, key.partition, before and before.offset, now.offset)
        for key, before, now in committed
        if key.group == group
    )
    return OffsetsCommitted(
        group=group,
        generation=generation,
        member_id=member_id,
        client_id=client_id,
        host=host,
        partitions=partitions,
    )
