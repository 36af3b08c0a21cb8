"""Deliberately broken coordinators of consumer groups that the simulation must detect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.actors.group.codec.consumer_records import ConsumerRecord, GroupEpoch
from muster.actors.group.consumer import classic_members, commits, conversion, departure, epochs, membership
from muster.actors.group.consumer import reconciliation as steps
from muster.actors.group.consumer.state import LEFT_FOR_A_WHILE, ConsumerGroup
from muster.actors.group.membership import forget_group
from muster.actors.group.shard import Shard
from tests.simulation.planted.coordinator import the_last_member_of_a_connection_stands_for_all
from tests.simulation.planted.planting import Change, Mutant, planting

MUTANTS: list[Mutant] = []
_mutant = planting(MUTANTS)
_mutant("the_core_never_fails", "connections_are_those_of_registered_members")(
    the_last_member_of_a_connection_stands_for_all
)


@_mutant("no_partition_has_two_holders", "no_two_use_a_partition")
def _partitions_are_given_before_they_are_given_up() -> list[Change]:
    step = steps.next_assignment
    return [(epochs, "next_assignment", lambda current, goal, owned, _: step(current, goal, owned, frozenset()))]


@_mutant("no_two_use_a_partition", "only_the_holder_commits")
def _a_heartbeat_without_partitions_gives_them_up() -> list[Change]:
    return [(steps, "_still_owns", lambda owned, revoking: owned is not None and not owned.isdisjoint(revoking))]


@_mutant("replay_equals_live")
def _an_assignment_is_not_written() -> list[Change]:
    append = Shard.append_consumer

    def mutant(self: Shard, group_id: Any, kind: ConsumerRecord, value: Any, name: str = "") -> None:
        append(self, group_id, kind, value, name)
        if kind is ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT and value is not None and value.revoking:
            self._open.records.pop()

    return [(Shard, "append_consumer", mutant)]


@_mutant("no_member_is_fenced_without_a_reason")
def _heartbeats_do_not_extend_the_session() -> list[Change]:
    arm = membership.arm_session

    def mutant(shard: Shard, group: Any, member_id: Any) -> None:
        if not group.assignment_of(member_id).epoch > 2:
            arm(shard, group, member_id)

    return [(membership, "arm_session", mutant)]


@_mutant("groups_get_well")
def _new_partitions_are_not_noticed() -> list[Change]:
    take = epochs.take_account

    def mutant(shard: Shard, group: Any, cause: Any, member_id: Any) -> None:
        if cause is not None:
            take(shard, group, cause, member_id)

    return [(epochs, "take_account", mutant)]


@_mutant("groups_get_well")
def _silent_members_stay() -> list[Change]:
    return [(departure, "end_sessions", lambda *_: None)]


@_mutant("only_the_holder_commits")
def _commits_of_former_members_are_taken() -> list[Change]:
    return [(commits, "check", lambda *_: None)]


@_mutant("epochs_never_go_back", "no_member_is_fenced_without_a_reason", "groups_get_well")
def _a_new_epoch_is_not_higher_than_one_before() -> list[Change]:
    raised = GroupEpoch
    return [
        (
            epochs,
            "GroupEpoch",
            lambda epoch, metadata_hash: raised(epoch=max(1, epoch % 7), metadata_hash=metadata_hash),
        )
    ]


@_mutant("no_member_is_fenced_without_a_reason", "groups_get_well")
def _the_previous_epoch_is_refused() -> list[Change]:
    check = membership.check_epoch
    return [(membership, "check_epoch", lambda group, member_id, epoch, _: check(group, member_id, epoch, None))]


@_mutant("registrations_agree_with_members", "replay_equals_live", "no_two_use_a_partition", "groups_get_well")
def _members_of_a_converted_group_have_nothing() -> list[Change]:
    shares = conversion._shares
    return [(conversion, "_shares", lambda shard, assigned: dict.fromkeys(shares(shard, assigned), frozenset()))]


@_mutant("registrations_agree_with_members", "groups_get_well")
def _members_are_forgotten_though_their_removal_fails() -> list[Change]:
    failed = Shard.write_failed

    def mutant(self: Shard, write: Any, error: Any) -> list[Any]:
        failed(self, write, error)
        return []

    return [(Shard, "write_failed", mutant)]


@_mutant("counters_agree_with_members")
def _topics_of_former_members_stay_subscribed() -> list[Change]:
    count = ConsumerGroup._count

    def mutant(self: ConsumerGroup, member_id: Any, member: Any, change: int) -> None:
        count(self, member_id, member if change > 0 else replace(member, topics=()), change)

    return [(ConsumerGroup, "_count", mutant)]


@_mutant("counters_agree_with_members")
def _members_that_leave_for_a_while_count_as_settled() -> list[Change]:
    put = ConsumerGroup._put_current

    def mutant(self: ConsumerGroup, member_id: Any, value: Any) -> None:
        put(self, member_id, value)
        if value is not None and value.epoch == LEFT_FOR_A_WHILE:
            self._settled[self.target_epoch] += 1

    return [(ConsumerGroup, "_put_current", mutant)]


@_mutant("counters_agree_with_members", "groups_get_well")
def _former_classic_members_count() -> list[Change]:
    count = ConsumerGroup._count

    def mutant(self: ConsumerGroup, member_id: Any, member: Any, change: int) -> None:
        count(self, member_id, member, change)
        if change < 0 and member.classic is not None:
            self._classic[True] += 1

    return [(ConsumerGroup, "_count", mutant)]


@_mutant("no_two_use_a_partition")
def _what_a_cooperative_consumer_owns_is_not_read() -> list[Change]:
    return [(classic_members, "_owned", lambda *_: frozenset())]


@_mutant("groups_get_well")
def _another_subscription_of_a_classic_member_is_not_noticed() -> list[Change]:
    write = classic_members._write_member

    def mutant(shard: Shard, group: Any, member_id: Any, *rest: Any) -> bool:
        known = group.members.get(member_id)
        return write(shard, group, member_id, *rest) and (known is None or known.classic is None)

    return [(classic_members, "_write_member", mutant)]


@_mutant("honest_members_are_understood", "groups_get_well")
def _classic_members_have_no_assignor_in_common() -> list[Change]:
    return [(ConsumerGroup, "supports", lambda *_: False)]


@_mutant("no_member_is_fenced_without_a_reason")
def _a_process_takes_the_place_of_one_that_is_there() -> list[Change]:
    return [(membership, "check_released", lambda *_: None)]


@_mutant("who_has_left_is_no_member")
def _static_members_never_leave() -> list[Change]:
    leave = departure.leave

    def mutant(shard: Shard, request: Any, context: Any, token: Any) -> None:
        static = request.instance_id is not None
        leave(shard, replace(request, member_epoch=LEFT_FOR_A_WHILE) if static else request, context, token)

    return [(departure, "leave", mutant)]


@_mutant("who_has_left_is_no_member")
def _an_administrator_removes_nobody() -> list[Change]:
    remove = departure.remove

    def mutant(shard: Shard, group: Any, gone: Any, *rest: Any, **how: Any) -> None:
        if None not in gone.values():
            return
        remove(shard, group, gone, *rest, **how)

    return [(departure, "remove", mutant)]


@_mutant("replay_equals_live")
def _offsets_of_a_consumer_group_are_forgotten_with_a_member() -> list[Change]:
    forget = membership.forget

    def mutant(shard: Shard, group: Any, member_id: Any, **how: Any) -> None:
        forget(shard, group, member_id, **how)
        shard.hard._offsets.pop(group.id, None)

    return [(membership, "forget", mutant)]


@_mutant("registrations_agree_with_members", "groups_get_well")
def _who_joins_stays_registered_though_the_conversion_fails() -> list[Change]:
    def mutant(shard: Shard, group: Any) -> None:
        forget_group(shard, group)
        group.members.clear()

    return [(conversion, "forget_group", mutant)]


@_mutant("registrations_agree_with_members")
def _a_registration_is_overtaken_by_one_of_before_a_conversion() -> list[Change]:
    def mutant(shard: Shard, group: ConsumerGroup, member_id: Any, event: Any = None) -> None:
        current = group.assignment_of(member_id)
        partitions = epochs.named(shard, [*current.assigned, *current.revoking])

        def written() -> None:
            now = shard.consumer_group(group.id)
            if now is not None and member_id in now.members:
                shard.say(shard.registry.reconciled(now, member_id, partitions))
                if event is not None:
                    shard.report(event)

        shard.follow(written, lambda error: None)

    return [(epochs, "register", mutant)]


@_mutant("groups_get_well")
def _heartbeats_of_the_classic_protocol_do_not_notice_new_partitions() -> list[Change]:
    beat = classic_members.heartbeat

    def mutant(*arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(epochs, "take_account", lambda *_: None)
            beat(*arguments)

    return [(classic_members, "heartbeat", mutant)]


@_mutant("groups_get_well", "honest_members_are_understood")
def _members_inherit_the_regular_expression_of_a_consumer() -> list[Change]:
    write = membership.put_member

    def mutant(shard: Shard, group_id: Any, member_id: Any, member: Any) -> ConsumerGroup:
        group = shard.consumer_group(group_id)
        before = group.members.get(member_id) if group is not None else None
        if before is not None and member.classic is not None:
            member = replace(member, regex=before.regex)
        return write(shard, group_id, member_id, member)

    return [(membership, "put_member", mutant)]
