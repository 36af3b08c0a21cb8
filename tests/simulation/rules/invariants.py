"""Everything that must hold after every step of the coordinator. The name of a function is the invariant's name."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.actor import Step, StepKind
from tests.simulation.planted.broken import Broken
from tests.simulation.rules import about_groups, about_members, about_memory, about_offsets, about_responses
from tests.simulation.view import View

Invariant = Callable[[View, Step], None]

INVARIANTS: tuple[Invariant, ...] = (
    about_responses.no_request_is_answered_twice,
    about_members.only_members_speak_for_the_group,
    about_groups.states_move_as_the_table_says,
    about_groups.generations_only_grow,
    about_groups.members_agree_on_their_generation,
    about_groups.groups_have_at_most_max_size_joined,
    about_groups.a_partition_is_assigned_once,
    about_groups.a_generation_has_one_assignment,
    about_groups.the_log_gets_what_the_leader_decided,
    about_groups.assignments_are_durable_before_they_are_sent,
    about_groups.a_failed_sync_phase_leaves_no_assignment,
    about_groups.a_reload_gives_the_group_back,
    about_members.no_member_is_expelled_without_a_reason,
    about_members.an_instance_has_one_member,
    about_members.silent_members_can_expire,
    about_responses.what_is_acknowledged_is_durable,
    about_responses.every_waiting_request_can_end,
    about_responses.no_request_waits_too_long,
    about_offsets.no_acknowledged_commit_is_lost,
    about_offsets.reads_show_what_is_durable,
    about_offsets.unstable_is_what_a_transaction_may_still_change,
    about_offsets.a_deleted_topic_leaves_no_offsets,
    about_offsets.offsets_expire_in_time,
    about_memory.replay_equals_live,
    about_memory.groups_in_memory_are_those_of_the_log,
    about_memory.every_timer_has_an_owner,
    about_memory.counters_agree_with_members,
    about_memory.registrations_agree_with_members,
    about_memory.connections_are_those_of_registered_members,
    about_memory.updates_sum_up_to_registrations,
)


OF_A_SURVIVOR = {about_offsets.no_acknowledged_commit_is_lost, about_members.silent_members_can_expire}
OF_A_SURVIVOR |= {invariant for invariant in INVARIANTS if invariant.__module__ == about_memory.__name__}
"""Not checked for an actor that is shutting down, or has not read its log yet."""


OF_WAITING = tuple(invariant for invariant in INVARIANTS if invariant.__module__ == about_responses.__name__)
"""Checked for a tick that had nothing to do."""


def check_all(view: View, step: Step) -> None:
    """Check all invariants. Raises Broken with the name of the violated one."""
    outcome = step.outcome
    idle = step.kind is StepKind.TICK and not (outcome.replies or outcome.records or outcome.updates or outcome.events)
    for invariant in OF_WAITING if idle else INVARIANTS:
        if (step.dying or (step.loading and step.kind is not StepKind.LOADED)) and invariant in OF_A_SURVIVOR:
            continue
        try:
            invariant(view, step)
        except Broken as broken:
            broken.invariant = broken.invariant or invariant.__name__
            raise
