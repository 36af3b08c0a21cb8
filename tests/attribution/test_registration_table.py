"""RegistrationTable: of two updates about one member the later one is right, in either order of arrival."""

from __future__ import annotations

import itertools

import pytest

from muster.gateway.attribution.claims import Reader
from muster.gateway.attribution.table import RegistrationTable
from muster.placement.mapping.registration import Change
from tests.attribution.bench import CLIENT, HOST, NOW_MS, Coordinator


def owners(table: RegistrationTable, partition: int, at_ms: int = NOW_MS, client_id: str | None = CLIENT) -> set[str]:
    slot = table.slot(HOST, client_id)
    return set() if slot is None else {claim.group for claim in slot.owners("t", partition, at_ms)}


def names(table: RegistrationTable) -> set[tuple[str, str]]:
    return {(registration.group, registration.member_id) for registration in table}


def test_any_order_of_updates_about_one_member_ends_the_same() -> None:
    says = Coordinator()
    history: list[Change] = [
        says.register("g", "m", 0),
        says.register("g", "m", 1),
        says.withdraw("g", "m"),
    ]
    for order in itertools.permutations([*history, *history]):
        table = RegistrationTable()
        for update in order:
            table.apply(update, NOW_MS)
        assert names(table) == set()


def test_a_late_registration_does_not_resurrect() -> None:
    table, says = RegistrationTable(), Coordinator()
    registered = says.register("g", "m", 0)
    table.apply(says.withdraw("g", "m"), NOW_MS)
    assert table.apply(registered, NOW_MS) == frozenset()
    assert table.slot(HOST, CLIENT) is None


def test_a_late_withdrawal_does_not_remove_the_newer_registration() -> None:
    table, says = RegistrationTable(), Coordinator()
    old = says.withdraw("g", "m")
    table.apply(says.register("g", "m", 0), NOW_MS)
    table.apply(old, NOW_MS)
    assert names(table) == {("g", "m")}


def test_the_epoch_counts_before_the_sequence() -> None:
    table, before, after = RegistrationTable(), Coordinator(epoch=1), Coordinator(epoch=2)
    before.sequence = 1_000
    table.apply(after.register("g", "m", 1), NOW_MS)
    table.apply(before.register("g", "m", 0), NOW_MS)
    table.apply(before.withdraw("g", "m"), NOW_MS)
    assert owners(table, 1) == {"g"}
    assert owners(table, 0) == set()


def test_folded_tombstones_still_do_not_let_anyone_resurrect() -> None:
    table, says = RegistrationTable(tombstones=3), Coordinator()
    late: list[Change] = []
    for number in range(50):
        late.append(says.register("g", f"m{number}", 0))
        table.apply(says.withdraw("g", f"m{number}"), NOW_MS)
    for update in late:
        table.apply(update, NOW_MS)
    assert names(table) == set()
    table.apply(says.register("g", "m0", 0), NOW_MS)
    assert names(table) == {("g", "m0")}


def test_a_snapshot_replaces_its_partition_and_no_other() -> None:
    table, one, other = RegistrationTable(), Coordinator(1), Coordinator(2)
    table.apply(one.register("gone", "a", 0), NOW_MS)
    table.apply(one.register("kept", "b", 1), NOW_MS)
    table.apply(other.register("elsewhere", "c", 2), NOW_MS)
    one.epoch, one.sequence = 2, 0
    table.replace(1, 2, [one.register("kept", "b", 1), one.register("new", "d", 3)], NOW_MS)
    assert names(table) == {("kept", "b"), ("new", "d"), ("elsewhere", "c")}


def test_an_older_snapshot_is_ignored_whichever_way_the_newer_epoch_was_heard_of() -> None:
    for heard_by_snapshot in (True, False):
        table, before, after = RegistrationTable(), Coordinator(epoch=1), Coordinator(epoch=2)
        if heard_by_snapshot:
            table.replace(7, 2, [after.register("g", "m", 0)], NOW_MS)
        else:
            table.apply(after.register("g", "m", 0), NOW_MS)
        assert table.replace(7, 1, [before.register("old", "m", 0)], NOW_MS) == frozenset()
        assert names(table) == {("g", "m")}


def test_after_a_snapshot_updates_from_before_it_are_history() -> None:
    table, says = RegistrationTable(), Coordinator()
    late = says.register("g", "left", 0)
    says.withdraw("g", "left")
    table.replace(7, 1, [says.register("g", "stays", 1)], NOW_MS, sequence=says.sequence)
    table.apply(late, NOW_MS)
    assert names(table) == {("g", "stays")}


def test_a_update_beyond_the_snapshot_stands() -> None:
    table, says = RegistrationTable(), Coordinator()
    included = says.register("g", "a", 0)
    sequence = says.sequence
    table.apply(says.register("g", "b", 1), NOW_MS)
    table.apply(says.withdraw("g", "a"), NOW_MS)
    table.replace(7, 1, [included], NOW_MS, sequence=sequence)
    assert names(table) == {("g", "b")}


def test_an_empty_snapshot_withdraws_everyone_with_grace() -> None:
    table, says = RegistrationTable(grace_ms=1_000), Coordinator()
    table.apply(says.register("g", "m", 0), NOW_MS)
    table.replace(7, 2, [], NOW_MS)
    assert len(table) == 0
    assert owners(table, 0, NOW_MS + 1_000) == {"g"}
    assert owners(table, 0, NOW_MS + 1_001) == set()


def test_a_repeated_snapshot_changes_no_version() -> None:
    table, says = RegistrationTable(), Coordinator()
    snapshot = [says.register("g", "m", 0)]
    table.replace(7, 1, snapshot, NOW_MS)
    version = table.version(HOST, CLIENT)
    assert table.replace(7, 1, snapshot, NOW_MS) == frozenset()
    assert table.replace(7, 2, [snapshot[0]._replace(epoch=2)], NOW_MS) == frozenset()
    assert table.version(HOST, CLIENT) == version


def test_every_change_of_a_version_is_a_change() -> None:
    """A caller that has seen no change need not check any version."""
    table, says = RegistrationTable(), Coordinator()
    seen = [(table.changes, table.version(HOST, CLIENT))]
    for step in (
        lambda: table.apply(says.register("g", "m", 0), NOW_MS),
        lambda: table.touch((HOST, CLIENT)),
        lambda: table.apply(says.withdraw("g", "m"), NOW_MS),
        lambda: table.prune(NOW_MS + 3_600_000),
    ):
        step()
        seen.append((table.changes, table.version(HOST, CLIENT)))
    assert len({changes for changes, _ in seen}) == len(seen)
    assert seen[-1][1] == 0


def test_null_and_empty_client_ids_are_different_clients() -> None:
    table, says = RegistrationTable(), Coordinator()
    table.apply(says.register("null", "m", 0, client_id=None), NOW_MS)
    table.apply(says.register("empty", "m", 0, client_id=""), NOW_MS)
    assert owners(table, 0, client_id=None) == {"null"}
    assert owners(table, 0, client_id="") == {"empty"}


def test_a_member_that_returns_from_another_host_leaves_its_old_key_after_the_grace_time() -> None:
    table, says = RegistrationTable(grace_ms=1_000, memory_ms=5_000), Coordinator()
    table.apply(says.register("g", "m", 0), NOW_MS)
    changed = table.apply(says.register("g", "m", 0, host="10.0.0.2"), NOW_MS)
    assert changed == {(HOST, CLIENT), ("10.0.0.2", CLIENT)}
    assert owners(table, 0, NOW_MS + 1_001) == set()
    table.prune(NOW_MS + 6_001)
    assert table.slot(HOST, CLIENT) is None
    assert table.version(HOST, CLIENT) == 0
    assert table.slot("10.0.0.2", CLIENT) is not None


@pytest.mark.parametrize("changes", [9, 100])
def test_the_history_of_a_member_is_bounded(changes: int) -> None:
    table, says = RegistrationTable(), Coordinator()
    for number in range(changes):
        table.apply(says.register("g", "m", number), NOW_MS)
    slot = table.slot(HOST, CLIENT)
    assert slot is not None
    assert len({claim.since_ms for n in range(changes) for claim in slot.owners("t", n, NOW_MS)}) == 1
    assert sum(len(history.ended) for history in slot._histories.values()) == 8


def test_a_principal_that_was_known_is_not_forgotten_by_a_coordinator_that_fails_over() -> None:
    table, before, after = RegistrationTable(), Coordinator(epoch=1), Coordinator(epoch=2)
    table.apply(before.register("g", "m", 0, principal="User:a"), NOW_MS)
    assert table.replace(7, 2, [after.register("g", "m", 0, principal=None)], NOW_MS) == frozenset()
    assert [registration.principal for registration in table] == ["User:a"]


def test_a_principal_that_becomes_known_holds_for_the_past_too() -> None:
    table, says = RegistrationTable(), Coordinator()
    table.apply(says.register("g", "m", 0, principal=None), NOW_MS)
    table.apply(says.register("g", "m", 1, principal=None), NOW_MS + 1)
    assert table.apply(says.register("g", "m", 1, principal="User:a"), NOW_MS + 2)
    slot = table.slot(HOST, CLIENT)
    assert slot is not None
    assert not slot.owners("t", 0, NOW_MS + 3, Reader("User:b"))
    assert len(slot.owners("t", 0, NOW_MS + 3, Reader("User:a"))) == 1
    assert len(slot.owners("t", 1, NOW_MS + 3, Reader("User:a"))) == 1


def test_updates_of_positions_change_no_registration() -> None:
    table, says = RegistrationTable(), Coordinator()
    table.apply(says.register("g", "m", 0), NOW_MS)
    assert table.apply(says.position("g", "m", {0: 100}), NOW_MS) == {(HOST, CLIENT)}
    assert names(table) == {("g", "m")}
    outdated = says.position("g", "m", {0: 100})
    says.epoch = 2
    table.apply(says.register("g", "m", 0), NOW_MS)
    assert table.apply(outdated, NOW_MS) == frozenset()
