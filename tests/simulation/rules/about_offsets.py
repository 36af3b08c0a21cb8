"""Invariants of committed offsets."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.records import CommittedOffset, OffsetKey, decode_key, decode_value, offset_record
from muster.actors.group.messages import FetchedOffset, OffsetFetch, OffsetFetchResponse
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId
from tests.simulation.actor import Received, Step, StepKind
from tests.simulation.known_offsets import Change, CommitKey
from tests.simulation.planted.broken import Broken
from tests.simulation.view import View

E = ErrorCode


def no_acknowledged_commit_is_lost(view: View, step: Step) -> None:
    """Check that a partition's offset is that of the last acknowledged change, or of a later one without a response.

    So a commit never disappears or decreases by itself: only a later commit, a requested deletion, the deletion of its
    topic or its expiry changes it. An acknowledged deletion stays, too.
    """
    if step.outcome.write is None and step.kind not in (StepKind.LOADED, StepKind.FAILED):
        return
    hard, promises = view.core.hard_state, view.promises.offsets
    for key in _removed_by_time(step):
        if key in promises.unstable or not _may_expire(view, step, key):
            raise Broken(f"{key} is removed, allowed: {promises.allowed(key)}")
        promises.expired(key, step.now_ms)
    for key in [*promises.changes]:
        group_id, topic, partition = key
        found = hard.offsets(group_id).get((topic, partition))
        offset = found.offset if found else None
        if offset not in [change.offset for change in promises.allowed(key)]:
            raise Broken(f"{key} is {offset}, allowed: {promises.allowed(key)}")
        if step.kind is StepKind.LOADED:
            promises.settle_for_good(key, offset)
    for group_id in hard.known_groups():
        for topic, partition in hard.offsets(group_id):
            if (group_id, topic, partition) not in promises.changes:
                raise Broken(f"no client has committed {topic}-{partition} of {group_id}")


def reads_show_what_is_durable(view: View, step: Step) -> None:
    """Check that a consumer starts at no offset which a crash then reverts: it would skip unprocessed records.

    A plain OffsetFetch returns what is durable now; one that requires stable offsets returns the newest, once durable.
    """
    for received, response in step.answered:
        if not isinstance(response, OffsetFetchResponse) or not isinstance(received.request, OffsetFetch):
            continue
        for group in response.groups:
            for topic in group.topics if group.error_code is E.none else ():
                for fetched in topic.partitions:
                    _check_read(view, received, (group.group_id, topic.name, fetched.partition_index), fetched)


def unstable_is_what_a_transaction_may_still_change(view: View, step: Step) -> None:
    """Check that no offset is read while its transaction is open: records would be processed twice (KIP-447)."""
    for received, response in step.answered:
        if not isinstance(response, OffsetFetchResponse) or not isinstance(received.request, OffsetFetch):
            continue
        pending = view.promises.offsets.unstable_then(received) if received.request.require_stable else frozenset()
        for group in response.groups:
            for topic in group.topics if group.error_code is E.none else ():
                for fetched in topic.partitions:
                    is_unstable = fetched.error_code is E.unstable_offset_commit
                    if is_unstable != ((group.group_id, topic.name, fetched.partition_index) in pending):
                        raise Broken(f"{received.request} is answered {fetched}, pending is {sorted(pending)}")


def a_deleted_topic_leaves_no_offsets(view: View, step: Step) -> None:
    """Check that a topic created again under the name starts afresh; old offsets would point nowhere."""
    if step.kind is not StepKind.TOPICS_DELETED:
        return
    hard = view.core.hard_state
    left = [(g, p) for g in hard.known_groups() for p in hard.partitions(g) if p[0] in step.topics]
    if left:
        raise Broken(f"{sorted(step.topics)} are deleted, but offsets are left: {left}")


def offsets_expire_in_time(view: View, step: Step) -> None:
    """After a walk no offset is left that should have expired, and no Empty group without offsets."""
    if step.kind is not StepKind.TICK or view.expiry_walk_ms() == view.walk_due_ms:
        return
    for group_id, group in step.after.items():
        offsets = view.core.hard_state.offsets(group_id)
        before = step.before.get(group_id)
        empty = group.state is GroupState.EMPTY and before is not None and before.state is GroupState.EMPTY
        if empty and not view.core.hard_state.has_offsets(group_id):
            raise Broken(f"{group_id} is Empty, has no offsets, and is still there")
        for (topic, partition), offset in offsets.items():
            if (group_id, topic, partition) in view.promises.offsets.unstable:
                continue
            over = _age_ms(step, group_id, offset, view) if empty else None
            if over is not None and over >= view.actor.config.offsets_retention_ms:
                raise Broken(f"{topic}-{partition} of {group_id} is {over} ms old")


def _removed_by_time(step: Step) -> list[CommitKey]:
    """Offsets that a tick has removed."""
    if step.kind is not StepKind.TICK:
        return []
    keys = [decode_key(record.key) for record in step.outcome.records if record.value is None]
    return [(key.group, key.topic, key.partition) for key in keys if isinstance(key, OffsetKey)]


def _age_ms(step: Step, group_id: GroupId, offset: CommittedOffset, view: View) -> int | None:
    if offset.expire_timestamp_ms is not None:
        return None
    base_ms = offset.commit_timestamp_ms
    group = step.after[group_id]
    if group.protocol_type is not None and group.state_since_ms >= 0:
        base_ms = group.state_since_ms
    return step.now_ms - base_ms


def _check_read(view: View, received: Received, key: CommitKey, fetched: FetchedOffset) -> None:
    offset = fetched.committed_offset if fetched.committed_offset != -1 else None
    promises = view.promises.offsets
    if fetched.error_code is E.unstable_offset_commit:
        return
    if received.request.require_stable:  # type: ignore[union-attr]
        if offset not in [change.offset for change in (*promises.readable_then(received, key), *promises.allowed(key))]:
            raise Broken(f"{received.request} reads {offset}, could be {promises.readable_then(received, key)}")
    else:
        record = offset_record(OffsetKey(*key), None)
        value = view.log.durable.last.get(record.key)
        stored = decode_value(OffsetKey(*key), value) if value is not None else None
        durable = stored.offset if isinstance(stored, CommittedOffset) else None
        if offset != durable:
            raise Broken(f"{received.request} reads {offset} of {key}, durable is {durable}")
    promises.settle(key, offset)


def _may_expire(view: View, step: Step, key: CommitKey) -> bool:
    """Whether the retention allows the tick to remove the value that was there before it."""
    before = step.before.get(key[0])
    if before is None:
        return False
    config = view.actor.config
    return any(
        _is_old(step, change, config.offsets_retention_ms)
        or (
            before.state is GroupState.EMPTY
            and change.expires_ms is None
            and step.now_ms - before.state_since_ms >= config.offsets_retention_ms
        )
        for change in view.promises.offsets.allowed(key)
        if change.offset is not None
    )


def _is_old(step: Step, change: Change, retention_ms: int) -> bool:
    if change.expires_ms is not None:
        return step.now_ms >= change.expires_ms
    return step.now_ms - change.at_ms >= retention_ms
