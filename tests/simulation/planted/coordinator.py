"""Deliberately broken coordinators that the simulation must detect.

Each mutant replaces functions of actors/group while its context is active.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from kio.schema.errors import ErrorCode

from muster.actors.group import coordinator, expiry, hard, membership, rebalance, state, static
from muster.actors.group.apis import admin, heartbeat, join, leave, offsets, sync
from muster.actors.group.errors import ApiError
from muster.actors.group.messages import Heartbeat, JoinGroupResponse, SyncGroupResponse
from muster.actors.group.registry import Registry, _Speakers
from muster.actors.group.shard import Shard, session_timer, sync_timer
from muster.actors.group.state import Group, GroupState, Member
from muster.actors.group.timers import TimerKind, Timers
from tests.simulation.planted.planting import Change, Mutant, planting

E = ErrorCode


MUTANTS: list[Mutant] = []
_mutant = planting(MUTANTS)


@_mutant("only_members_speak_for_the_group")
def _commit_of_any_generation() -> list[Change]:
    check = offsets._check_commit

    def mutant(shard: Shard, group: Group | None, request: Any, context: Any) -> None:
        if group is not None and request.generation_id >= 0:
            request = replace(request, generation_id=group.generation)
        check(shard, group, request, context)

    return [(offsets, "_check_commit", mutant)]


@_mutant("only_members_speak_for_the_group")
def _commit_while_the_assignment_is_awaited() -> list[Change]:
    check = offsets._check_commit

    def mutant(shard: Shard, group: Group | None, request: Any, context: Any) -> None:
        try:
            check(shard, group, request, context)
        except ApiError as refused:
            if refused.error is not E.rebalance_in_progress:
                raise

    return [(offsets, "_check_commit", mutant)]


@_mutant("every_waiting_request_can_end", "no_request_waits_too_long")
def _no_sync_deadline() -> list[Change]:
    complete = rebalance._await_assignment

    def mutant(shard: Shard, group: Group) -> None:
        complete(shard, group)
        shard.timers.cancel(sync_timer(group))

    return [(rebalance, "_await_assignment", mutant)]


@_mutant("the_log_gets_what_the_leader_decided", "a_partition_is_assigned_once")
def _members_that_the_leader_leaves_out_keep_their_assignment() -> list[Change]:
    store = sync._store_assignment

    def mutant(shard: Shard, group: Group, given: Any) -> None:
        store(shard, group, group.assignments() | given)

    return [(sync, "_store_assignment", mutant)]


@_mutant("a_partition_is_assigned_once")
def _every_member_gets_the_share_of_the_first() -> list[Change]:
    synced = sync._synced

    def mutant(group: Group, member: Member) -> SyncGroupResponse:
        return synced(group, next(iter(group.members.values())))

    return [(sync, "_synced", mutant)]


@_mutant("a_generation_has_one_assignment")
def _a_replaced_static_member_starts_without_assignment() -> list[Change]:
    rename = Group.rename

    def mutant(group: Group, old_id: Any, new_id: Any) -> Member:
        member = rename(group, old_id, new_id)
        member.assignment = b""
        return member

    return [(Group, "rename", mutant)]


@_mutant("a_failed_sync_phase_leaves_no_assignment")
def _a_failed_sync_phase_keeps_assignments() -> list[Change]:
    def mutant(shard: Shard, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            membership.respond_to_sync(shard, group, member, SyncGroupResponse(error_code=error))

    return [(rebalance, "drop_assignments", mutant), (sync, "drop_assignments", mutant)]


@_mutant("what_is_acknowledged_is_durable")
def _responds_before_the_write_is_durable() -> list[Change]:
    def mutant(shard: Shard, token: Any, request: Any, response: Any) -> None:
        shard.reply(token, response)

    return [(Shard, "reply_when_durable", mutant)]


@_mutant("assignments_are_durable_before_they_are_sent", "states_move_as_the_table_says")
def _assignment_sent_before_it_is_durable() -> list[Change]:
    follow = Shard.follow

    def mutant(shard: Shard, written: Callable[[], None], failed: Any) -> None:
        if "_store_assignment" in written.__qualname__:
            written()
        else:
            follow(shard, written, failed)

    return [(Shard, "follow", mutant)]


@_mutant("an_instance_has_one_member", "registrations_agree_with_members", "the_core_never_fails")
def _the_old_id_stays_valid_after_a_static_replacement() -> list[Change]:
    rename = Group.rename

    def mutant(group: Group, old_id: Any, new_id: Any) -> Member:
        member = rename(group, old_id, new_id)
        group.add(replace(member, id=old_id, parked_join=None, parked_sync=None))
        group.static_members[member.group_instance_id or ""] = new_id
        return member

    return [(Group, "rename", mutant)]


@_mutant("no_member_is_expelled_without_a_reason")
def _join_phase_ends_with_members_missing() -> list[Change]:
    def mutant(shard: Shard, group: Group) -> None:
        if group.state is GroupState.PREPARING_REBALANCE and not group.in_initial_delay:
            rebalance.complete_join(shard, group)

    return [(module, "complete_if_all_joined", mutant) for module in (rebalance, join, leave)]


@_mutant("no_member_is_expelled_without_a_reason", "silent_members_can_expire")
def _heartbeats_do_not_renew_the_session() -> list[Change]:
    beat = heartbeat.heartbeat

    def mutant(shard: Shard, request: Heartbeat, context: Any, token: Any) -> None:
        with patch.object(shard, "arm_session", lambda group, member: None):
            beat(shard, request, context, token)

    return [(heartbeat, "heartbeat", mutant)]


@_mutant("silent_members_can_expire")
def _no_session_after_the_join_phase() -> list[Change]:
    complete = rebalance._await_assignment

    def mutant(shard: Shard, group: Group) -> None:
        complete(shard, group)
        for member in group.members.values():
            shard.timers.cancel(session_timer(group, member))

    return [(rebalance, "_await_assignment", mutant)]


@_mutant("no_acknowledged_commit_is_lost", "a_deleted_topic_leaves_no_offsets")
def _offset_delete_writes_no_tombstones() -> list[Change]:
    def mutant(shard: Shard, group_id: Any, partitions: Any) -> None:
        return

    return [(offsets, "_remove", mutant)]


@_mutant("replay_equals_live", "no_acknowledged_commit_is_lost", "a_deleted_topic_leaves_no_offsets")
def _replay_ignores_tombstones() -> list[Change]:
    put = hard.HardState._put

    def mutant(state: hard.HardState, key: Any, value: Any) -> None:
        if value is not None:
            put(state, key, value)

    return [(hard.HardState, "_put", mutant)]


@_mutant("no_request_is_answered_twice")
def _a_superseded_join_is_answered_twice() -> list[Change]:
    park = membership.park

    def mutant(shard: Shard, group: Group, member: Member, parked: Any) -> None:
        before = member.parked_join
        park(shard, group, member, parked)
        if before:
            shard.reply(before.token, JoinGroupResponse(error_code=E.unknown_member_id, member_id=member.id))

    return [(module, "park", mutant) for module in (join, static)]


@_mutant("every_waiting_request_can_end")
def _a_new_rebalance_forgets_parked_syncs() -> list[Change]:
    def mutant(shard: Shard, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""

    return [(rebalance, "drop_assignments", mutant)]


@_mutant("a_reload_gives_the_group_back")
def _assignments_are_not_loaded() -> list[Change]:
    restored = state._restored_member

    def mutant(stored: Any, protocol: Any) -> Member:
        return restored(replace(stored, assignment=b""), protocol)

    return [(state, "_restored_member", mutant)]


@_mutant("generations_only_grow", "a_reload_gives_the_group_back")
def _generations_begin_anew_after_a_reload() -> list[Change]:
    load = state.restored

    def mutant(group_id: Any, record: Any) -> Group:
        group = load(group_id, record)
        group.generation = 0
        return group

    return [(coordinator, "restored", mutant)]


@_mutant("groups_have_at_most_max_size_joined")
def _no_group_is_ever_full() -> list[Change]:
    return [(join, "_has_room", lambda shard, group, request: True)]


@_mutant("members_agree_on_their_generation")
def _a_leader_that_did_not_join_stays_leader() -> list[Change]:
    def mutant(group: Group) -> bool:
        return any(member.parked_join for member in group.members.values())

    return [(rebalance, "_elect_joined_leader", mutant)]


@_mutant("reads_show_what_is_durable")
def _reads_show_what_is_not_durable_yet() -> list[Change]:
    return [(Shard, "committed_offsets", lambda shard, group: shard.hard.offsets(group))]


@_mutant("replay_equals_live")
def _a_failed_write_is_not_undone() -> list[Change]:
    return [(hard.HardState, "undo", lambda hard_state, priors: None)]


@_mutant("registrations_agree_with_members")
def _registrations_stay_when_members_go() -> list[Change]:
    gone = Registry.gone

    def mutant(registry: Registry, group: Any, member_id: str, **how: bool) -> Any:
        return gone(registry, group, member_id, **how) if "/" in member_id else None

    return [(Registry, "gone", mutant)]


def the_last_member_of_a_connection_stands_for_all() -> list[Change]:
    """Each connection has one member, also after another one was heard on it and has left."""

    def heard(speakers: Any, group: Any, member_id: Any, context: Any) -> None:
        connection = context.connection if context else ""
        known = speakers._connections.get((group, member_id), ())
        if not connection or (connection in known and speakers._members[group, connection] == member_id):
            return
        speakers._members[group, connection] = member_id
        speakers._connections[group, member_id] = (connection, *(each for each in known if each != connection))[:2]

    def drop(speakers: Any, group: Any, connection: str, member_id: str) -> None:
        if speakers._members.get((group, connection)) == member_id:
            del speakers._members[group, connection]

    def member_on(speakers: Any, group: Any, connection: str) -> Any:
        return speakers._members.get((group, connection))

    return [(_Speakers, "heard", heard), (_Speakers, "_drop", drop), (_Speakers, "member_on", member_on)]


_mutant("the_core_never_fails", "connections_are_those_of_registered_members")(
    the_last_member_of_a_connection_stands_for_all
)


@_mutant("updates_sum_up_to_registrations")
def _some_updates_are_not_sent() -> list[Change]:
    return [
        (
            admin,
            "withdraw_all",
            lambda shard, group: [shard.registry.gone(group, m) for m in shard.registry.members_of(group)],
        )
    ]


@_mutant("every_timer_has_an_owner")
def _cancelled_sessions_go_on() -> list[Change]:
    cancel = Timers.cancel

    def mutant(timers: Timers[Any], name: Any) -> None:
        if name.kind is not TimerKind.SESSION:
            cancel(timers, name)

    return [(Timers, "cancel", mutant)]


@_mutant("states_move_as_the_table_says", "assignments_are_durable_before_they_are_sent")
def _an_assignment_arrives_in_a_later_generation() -> list[Change]:
    become = sync._become_stable
    follow = Shard.follow

    def mutant(shard: Shard, written: Callable[[], None], failed: Any) -> None:
        if "_store_assignment" not in written.__qualname__:
            follow(shard, written, failed)
            return
        cells = dict(zip(written.__code__.co_freevars, written.__closure__ or (), strict=True))
        group, assignments = cells["group"].cell_contents, cells["assignments"].cell_contents
        follow(shard, lambda: become(shard, group, assignments), failed)

    return [(Shard, "follow", mutant)]


@_mutant("only_members_speak_for_the_group")
def _a_fenced_process_is_heard() -> list[Change]:
    def mutant(group: Group, member_id: Any, group_instance_id: str | None) -> Member:
        current = group.static_members.get(group_instance_id or "", member_id)
        if current not in group.members:
            raise ApiError(E.unknown_member_id)
        return group.members[current]

    return [(module, "check_member", mutant) for module in (heartbeat, offsets, sync, join, leave)]


@_mutant("no_acknowledged_commit_is_lost")
def _offsets_of_a_group_with_members_expire() -> list[Change]:
    return [
        (expiry, "_may_expire", lambda group, topic: True),
        (expiry, "_is_expired", lambda shard, group, offset: True),
    ]


@_mutant("a_deleted_topic_leaves_no_offsets", "no_acknowledged_commit_is_lost")
def _a_deleted_topic_keeps_one_offset() -> list[Change]:
    remove = offsets._remove

    def mutant(shard: Shard, group_id: Any, partitions: Any) -> None:
        remove(shard, group_id, [*partitions][1:])

    return [(offsets, "_remove", mutant)]


@_mutant("no_acknowledged_commit_is_lost", "replay_equals_live", "groups_in_memory_are_those_of_the_log")
def _a_deleted_group_keeps_its_offsets() -> list[Change]:
    remove = admin.remove_group

    def mutant(shard: Shard, group: Group) -> None:
        with patch.object(shard, "append_offset_tombstones", lambda group_id, partitions: ()):
            remove(shard, group)

    return [(admin, "remove_group", mutant)]
