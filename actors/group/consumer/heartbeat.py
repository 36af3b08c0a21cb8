"""ConsumerGroupHeartbeat (api key 68), v0-1: KIP-848's only request of a member.

v0 the coordinator makes a member id for a client that sends none | v1 regular expressions, KIP-848; clients make their
member ids, KIP-1082

Epochs 0 joins, -1 leaves, -2 leaves for a while as a static member.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import re2
from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_records import (
    ConsumerRecord,
    MemberMetadata,
    ResolvedRegex,
    TopicIdPartition,
    by_topic,
)
from muster.actors.group.consumer import conversion, departure, epochs, membership
from muster.actors.group.consumer.state import LEFT_FOR_A_WHILE, ConsumerGroup
from muster.actors.group.errors import ApiError
from muster.actors.group.events import Cause
from muster.actors.group.messages import (
    NO_MEMBER,
    AssignedTopic,
    AssignedTopics,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
)
from muster.actors.group.shard import Shard
from muster.actors.group.types import MemberId, Token
from muster.placement.client import Context

JOIN, LEAVE = 0, -1
REGEX_REFRESH_MIN_INTERVAL_MS = 10_000
"""Regular expressions of a group are looked up no more often. Hard-coded in Kafka, too."""
_CAUSES = (
    ("invalid perl operator: (?<", "invalid named capture"),
    ("missing )", "missing closing )"),
    ("missing ]", "missing closing ]"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("invalid named capture group", "invalid named capture"),
    ("trailing \\", "trailing backslash at end of expression"),
    ("unexpected )", "regexp/syntax: internal error"),
    ("invalid character class range", "invalid character class range"),
    ("invalid escape sequence", "invalid escape sequence"),
)
"""Message of RE2, and message of RE2/J, Kafka's Java implementation, for the same error."""
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def heartbeat(shard: Shard, request: ConsumerGroupHeartbeat, context: Context, token: Token) -> None:
    """Take note of what the member says, and move it towards its assignment. Raises ApiError."""
    if request.member_epoch in (LEAVE, LEFT_FOR_A_WHILE):
        departure.leave(shard, request, context, token)
        return
    if not request.member_id:
        request = replace(request, member_id=MemberId(shard.new_id()))
    classic = shard.groups.get(request.group_id)
    is_new = shard.consumer_group(request.group_id) is None and (classic is None or classic.creation_pending)
    with shard.all_or_nothing():
        upgrade = conversion.begin_upgrade(shard, request)
        joined, replaced = _identify(shard, request)
        member_id = request.member_id
        cause, bumped = _write_member(shard, request, context, joined=joined)
        group = shard.hard.consumer_groups[request.group_id]
        membership.report_arrival(shard, group, member_id, joined=joined, replaced=replaced)
        epochs.take_account(shard, group, cause, member_id)
        epochs.assign_targets(shard, group)
        moved = epochs.reconcile(shard, group, member_id, request.owned, subscription_changed=bumped)
    if upgrade is not None:
        conversion.finish_upgrade(shard, upgrade)
    if replaced is not None:
        membership.forget(shard, group, replaced)
    membership.meet(shard, group, member_id, context)
    membership.arm_session(shard, group, member_id)
    if is_new:
        _note_creation(shard, group)
    shard.reply_when_durable(token, request, _response(shard, group, request, moved=moved))
    refresh_regexes(shard, group)


def _identify(shard: Shard, request: ConsumerGroupHeartbeat) -> tuple[bool, MemberId | None]:
    """Whether the member is new, and which one it replaces. Raises ApiError."""
    group, member_id = shard.consumer_group(request.group_id), request.member_id
    joins = request.member_epoch == JOIN
    membership.check_room(shard, group, member_id, request.instance_id)
    if group is None:
        return True, None
    instance_id = request.instance_id
    if instance_id is not None and joins:
        old_id = group.static_members.get(instance_id)
        if old_id is None:
            return True, None
        membership.check_released(group, member_id, instance_id, old_id)
        membership.replace_member(shard, group, old_id, member_id)
        return False, old_id
    if instance_id is not None:
        membership.check_static(group, member_id, instance_id)
    if member_id not in group.members:
        if not joins:
            raise membership.unknown_member(group.id, member_id)
        return True, None
    if not joins:
        membership.check_epoch(group, member_id, request.member_epoch, request.owned)
    return False, None


def _write_member(
    shard: Shard, request: ConsumerGroupHeartbeat, context: Context, *, joined: bool
) -> tuple[Cause | None, bool]:
    """Write what is new about the member: why the epoch rises, if it does, and whether its subscription has changed."""
    group, member_id = shard.consumer_group(request.group_id), request.member_id
    before = None if joined or group is None else group.members[member_id]
    member = _merged(before, request, context)
    regex, old_regex = member.regex or "", (before.regex if before else "") or ""
    resolved = group is not None and regex in group.regexes
    if regex != old_regex and regex and not resolved and (wrong := _why_invalid(regex)) is not None:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {wrong}."
        raise ApiError(ErrorCode.invalid_regular_expression, message=message)
    other_vote = member.assignor != (before.assignor if before else None)
    assignor = epochs.assignor_of(shard, group) if group is not None and other_vote else None
    group = membership.put_member(shard, request.group_id, member_id, member)
    if regex != old_regex:
        membership.drop_regexes(shard, group, (old_regex,))
    renamed = member.topics != (before.topics if before else ())
    rematched = regex != old_regex and (resolved or not regex)
    if not renamed and not rematched:
        reassigned = assignor is not None and epochs.assignor_of(shard, group) != assignor
        return Cause.ASSIGNOR_CHANGED if reassigned else None, regex != old_regex
    return Cause.MEMBER_JOINED if joined else Cause.SUBSCRIPTION_CHANGED, True


def _merged(before: MemberMetadata | None, request: ConsumerGroupHeartbeat, context: Context) -> MemberMetadata:
    """Merge a request into the member's metadata; fields that it leaves out have not changed."""
    known = before or MemberMetadata(client_id="", client_host="", instance_id=request.instance_id)
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        known,
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=context.client_id or "",
        client_host=f"/{context.host}",
        topics=known.topics if request.topics is None else tuple(sorted({*request.topics})),
        regex=known.regex if request.regex is None else request.regex,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=known.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def _note_creation(shard: Shard, group: ConsumerGroup) -> None:
    """Until the first records of a new group are durable, reads do not show it."""
    group.creation_pending = True

    def written() -> None:
        group.creation_pending = False

    shard.follow(written, lambda error: None)


def _response(
    shard: Shard, group: ConsumerGroup, request: ConsumerGroupHeartbeat, *, moved: bool
) -> ConsumerGroupHeartbeatResponse:
    current = group.assignment_of(request.member_id)
    says_all = (
        request.rebalance_timeout_ms != -1
        and (request.topics is not None or request.regex is not None)
        and request.owned is not None
    )
    shown = moved or says_all or request.member_epoch == JOIN
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=current.epoch,
        heartbeat_interval=shard.config.heartbeat_interval_ms(group.id),
        assignment=assigned_topics(shard, current.assigned) if shown else None,
    )


def assigned_topics(shard: Shard, partitions: Iterable[TopicIdPartition], *, existing: bool = False) -> AssignedTopics:
    """Partitions by topic; ``existing``: without those of deleted topics."""
    return AssignedTopics(
        topic_partitions=tuple(
            AssignedTopic(topic_id=topic, topic_name=shard.topics.name_of(topic) or "", partitions=tuple(indexes))
            for topic, indexes in by_topic(partitions).items()
            if not existing or shard.topics.name_of(topic) is not None
        )
    )


def refresh_regexes(shard: Shard, group: ConsumerGroup) -> None:
    """Look up which topics the regular expressions of the group match, if that may have changed.

    The result takes effect with the members' next heartbeats.
    """
    wanted = group.wanted_regexes()
    if not wanted:
        return
    known = [group.regexes[regex] for regex in wanted if regex in group.regexes]
    last_ms = max((each.timestamp_ms for each in known), default=None)
    if last_ms is not None and shard.now_ms < last_ms + REGEX_REFRESH_MIN_INTERVAL_MS:
        return
    is_old = last_ms is not None and shard.now_ms > last_ms + shard.config.group_consumer_regex_refresh_interval_ms
    if len(known) == len(wanted) and not is_old and all(each.version >= shard.topics.version for each in known):
        return
    changed = False
    for regex in sorted(wanted):
        topics = _matching(regex, shard.topics.by_name)
        before = group.regexes.get(regex)
        changed |= topics != (before.topics if before else ())
        resolved = ResolvedRegex(topics=topics, version=shard.topics.version, timestamp_ms=shard.now_ms)
        shard.append_consumer(group.id, ConsumerRecord.REGULAR_EXPRESSION, resolved, regex)
    if changed:
        epochs.raise_epoch(shard, group, Cause.REGEX_RESOLVED, NO_MEMBER)


def _why_invalid(regex: str) -> str | None:
    """Return the error in a regular expression, in the words of Kafka's error message; None if it is valid."""
    try:
        _compiled(regex)
    except re2.error as error:
        text = error.args[0].decode(errors="replace")
        return next((cause for start, cause in _CAUSES if start in text), text)
    return None


def _matching(regex: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Return the topics whose whole name matches, sorted; none for an expression that is not valid."""
    try:
        pattern = _compiled(regex)
    except re2.error:
        return ()
    return tuple(sorted(topic for topic in topics if pattern.fullmatch(topic)))


@lru_cache(maxsize=256)
def _compiled(regex: str) -> re2._Regexp:
    return re2.compile(regex, _OPTIONS)
