"""TxnOffsetCommit and markers: pending offsets, what a marker makes of them, what sees them, and replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from muster.actors.group.config import GroupConfig
from muster.actors.group.events import OffsetsCommitted, OffsetsDeleted, OffsetsExpired, RemovedOffset
from muster.actors.group.messages import DeleteGroups, ListGroups, OffsetDelete
from muster.actors.group.types import GroupId, Producer
from tests.group.driver import (
    HOST,
    Driver,
    G,
    assignment,
    beat,
    commit,
    error_of,
    fetch,
    marker,
    sync,
    txn_commit,
)

Make = Callable[..., Driver]
E = ErrorCode
T0 = ("t", 0)
DAY_MS = 24 * 3600 * 1000


def _stable(driver: Driver, *partitions: tuple[str, int], everything: bool = False) -> list[tuple[int, ErrorCode]]:
    """Offset and error of each partition, by a fetch that requires stable offsets."""
    (group,) = driver.exchange(fetch(*partitions, everything=everything, stable=True)).groups
    assert group.error_code is E.none
    return [(each.committed_offset, each.error_code) for topic in group.topics for each in topic.partitions]


def _commits(driver: Driver) -> list[OffsetsCommitted]:
    return [event for event in driver.events if isinstance(event, OffsetsCommitted)]


def test_offsets_are_pending_until_the_marker(driver: Driver) -> None:
    driver.exchange(commit({T0: 3}))
    assert driver.error(txn_commit({T0: 5})) is E.none
    assert driver.offset(*T0) == 3
    assert _stable(driver, T0, ("t", 1)) == [(-1, E.unstable_offset_commit), (-1, E.none)]
    assert [event.partitions for event in _commits(driver)] == [(("t", 0, None, 3),)]
    assert driver.error(marker()) is E.none
    assert driver.offset(*T0) == 5
    assert _stable(driver, T0) == [(5, E.none)]


def test_abort_drops_them(driver: Driver) -> None:
    driver.exchange(commit({T0: 3}))
    driver.exchange(txn_commit({T0: 5, ("t", 1): 7}))
    assert driver.error(marker(commit=False)) is E.none
    assert _stable(driver, T0, ("t", 1)) == [(3, E.none), (-1, E.none)]
    assert len(_commits(driver)) == 1


def test_the_step_of_a_commit_is_a_batch_of_the_producer(make: Make) -> None:
    driver = make(auto=False)
    driver.park(txn_commit({T0: 5, ("t", 1): 7}, producer_id=9, epoch=2))
    driver.park(marker(producer_id=9, epoch=3))
    batch, control = driver.unwritten
    assert (batch.producer, batch.marker, len(batch.records)) == (Producer(9, 2), None, 2)
    assert (control.producer, control.records) == (None, ())
    assert control.marker == marker(producer_id=9, epoch=3).marker
    driver.write_all()


def test_a_marker_is_answered_when_it_is_durable_and_applied(make: Make) -> None:
    driver = make(auto=False)
    driver.park(txn_commit({T0: 5}))
    driver.write_all()
    token = driver.park(marker())
    assert driver.offset(*T0) == -1, "a plain fetch sees what is durable"
    stable = driver.park(fetch(T0, stable=True))
    driver.write_all()
    assert error_of(driver.response(token)) is E.none
    assert driver.response(stable).groups[0].topics[0].partitions[0].committed_offset == 5
    assert driver.offset(*T0) == 5


def test_a_marker_without_pending_offsets_is_written_nevertheless(driver: Driver) -> None:
    assert driver.error(marker(epoch=7)) is E.none
    assert driver.log == [marker(epoch=7).marker]
    assert driver.core.groups == {}


def test_the_second_commit_in_a_transaction_counts(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5}))
    driver.exchange(txn_commit({T0: 4}))
    driver.exchange(marker())
    assert driver.offset(*T0) == 4
    assert [event.partitions for event in _commits(driver)] == [(("t", 0, None, 4),)]


def test_a_plain_commit_after_the_pending_one_wins(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5}))
    driver.exchange(commit({T0: 3}))
    assert _stable(driver, T0) == [(-1, E.unstable_offset_commit)]
    driver.exchange(marker())
    assert _stable(driver, T0) == [(3, E.none)]


def test_a_pending_one_after_a_plain_commit_wins(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5}))
    driver.exchange(commit({T0: 3}))
    driver.exchange(txn_commit({T0: 4}))
    driver.exchange(marker())
    assert _stable(driver, T0) == [(4, E.none)]


@pytest.mark.parametrize("first", [1, 2])
def test_of_two_producers_the_later_record_wins_whoever_ends_first(driver: Driver, first: int) -> None:
    driver.exchange(txn_commit({T0: 10}, producer_id=1))
    driver.exchange(txn_commit({T0: 20}, producer_id=2))
    driver.exchange(marker(producer_id=first))
    assert _stable(driver, T0) == [(-1, E.unstable_offset_commit)]
    assert driver.offset(*T0) == first * 10
    driver.exchange(marker(producer_id=3 - first))
    assert _stable(driver, T0) == [(20, E.none)]


def test_a_marker_ends_the_offsets_of_all_groups_and_of_that_producer_only(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5}))
    driver.exchange(txn_commit({T0: 6}, group="other"))
    driver.exchange(txn_commit({("t", 1): 7}, producer_id=2))
    driver.exchange(marker())
    assert (driver.offset(*T0), driver.offset(*T0, group="other"), driver.offset("t", 1)) == (5, 6, -1)
    assert [event.group for event in _commits(driver)] == ["g", "other"]


def test_a_commit_is_reported_with_its_member_once_it_is_committed(driver: Driver) -> None:
    [member_id] = driver.stable()
    driver.exchange(txn_commit({T0: 5}, member_id=member_id, generation=1), client="producer-1", host="10.0.0.9")
    driver.exchange(txn_commit({T0: 5}, group="simple"), client="producer-1")
    assert not _commits(driver)
    driver.exchange(marker(), client=None, host="")
    by_member, simple = _commits(driver)
    assert (by_member.generation, by_member.member_id) == (1, member_id)
    assert (by_member.client_id, by_member.host) == ("producer-1", "10.0.0.9")
    assert (simple.generation, simple.member_id, simple.host) == (None, None, HOST)
    assert not driver.core._shard.committers


def test_a_committer_is_forgotten_if_the_log_refuses_the_commit(driver: Driver) -> None:
    driver.auto = False
    for _ in range(2):
        driver.send(txn_commit({T0: 5}))
    driver.fail(E.message_too_large)
    assert not driver.core._shard.committers


def test_a_committer_is_known_if_the_log_refuses_its_second_commit(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5}), client="producer-1")
    driver.auto = False
    driver.send(txn_commit({T0: 6}), client="producer-1")
    driver.fail(E.message_too_large)
    driver.auto = True
    driver.exchange(marker())
    assert [(event.client_id, event.partitions) for event in _commits(driver)] == [("producer-1", (("t", 0, None, 5),))]


def test_a_marker_forgets_committers_whose_offsets_were_removed(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5}))
    driver.exchange(OffsetDelete(api_version=0, group_id=G, topics=(("t", (0,)),)))
    driver.exchange(marker())
    assert not _commits(driver)
    assert not driver.core._shard.committers


def test_the_committer_is_not_known_after_a_restart(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5}))
    driver.restart()
    driver.exchange(marker())
    (event,) = _commits(driver)
    assert (event.client_id, event.host, event.partitions) == (None, "", (("t", 0, None, 5),))


# Who may commit


def test_an_unknown_group(driver: Driver) -> None:
    assert driver.error(txn_commit({T0: 1}, generation=0)) is E.illegal_generation
    assert driver.error(txn_commit({T0: 1}, group="")) is E.invalid_group_id
    assert driver.core.groups == {}
    assert driver.error(txn_commit({T0: 1}, member_id="whoever")) is E.none
    assert driver.group().is_simple
    assert [group.group_id for group in driver.exchange(ListGroups(api_version=5)).groups] == ["g"]


def test_a_group_with_members(driver: Driver) -> None:
    [member_id] = driver.stable()
    assert driver.error(txn_commit({T0: 1})) is E.none, "a transaction may be of a producer before KIP-447"
    assert driver.error(txn_commit({T0: 1}, member_id="x")) is E.unknown_member_id
    assert driver.error(txn_commit({T0: 1}, member_id=member_id)) is E.illegal_generation
    assert driver.error(txn_commit({T0: 1}, member_id=member_id, generation=2)) is E.illegal_generation
    assert driver.error(txn_commit({T0: 1}, member_id=member_id, generation=1)) is E.none
    assert driver.error(txn_commit({T0: 1}, member_id=member_id, generation=1, instance="i")) is E.unknown_member_id


def test_a_replaced_static_member_is_fenced(driver: Driver) -> None:
    [member_id] = driver.stable_static("I")
    assert driver.error(txn_commit({T0: 1}, member_id="other", generation=1, instance="I")) is E.fenced_instance_id
    assert driver.error(txn_commit({T0: 1}, member_id=member_id, generation=1, instance="I")) is E.none


def test_while_completing_a_rebalance(driver: Driver) -> None:
    token = driver.new_member()
    (joined,) = driver.responses_to([token])
    member_id = joined.member_id
    assert driver.error(commit({T0: 1}, member_id=member_id, generation=1)) is E.rebalance_in_progress
    assert driver.error(txn_commit({T0: 1}, member_id=member_id, generation=1)) is E.none
    driver.exchange(sync(member_id, 1, {member_id: assignment(T0)}))


def test_it_keeps_no_session_alive_and_registers_no_client(driver: Driver) -> None:
    [member_id] = driver.stable()
    updates = len(driver.updates)
    driver.advance(9_000)
    driver.exchange(txn_commit({T0: 1}, member_id=member_id, generation=1), client="producer-1")
    driver.exchange(txn_commit({T0: 1}, group="simple"), client="producer-1")
    assert len(driver.updates) == updates
    driver.advance(1_000)
    assert driver.error(beat(member_id, 1)) is E.unknown_member_id


def test_long_metadata_is_refused_alone(driver: Driver) -> None:
    response = driver.exchange(txn_commit({T0: 1}, metadata="x" * 5000))
    assert error_of(response) is E.offset_metadata_too_large
    assert driver.log == []
    assert driver.core.groups == {}


def test_while_loading_and_after(make: Make) -> None:
    driver = make(start=False)
    assert driver.error(txn_commit({T0: 1})) is E.coordinator_load_in_progress
    assert driver.error(marker()) is E.coordinator_load_in_progress
    driver.resign()
    assert driver.error(marker()) is E.not_coordinator


# A write that fails


def test_a_failed_commit_leaves_nothing(make: Make) -> None:
    driver = make(auto=False)
    token = driver.park(txn_commit({T0: 5}))
    driver.fail(E.not_leader_or_follower)
    assert error_of(driver.response(token)) is E.not_coordinator
    assert driver.core.groups == {}
    assert not driver.core.hard_state.pending


def test_a_failed_marker_leaves_everything_pending(make: Make) -> None:
    driver = make(auto=False)
    driver.send(commit({T0: 3}))
    driver.send(txn_commit({T0: 5}, producer_id=1), client="p")
    driver.send(txn_commit({T0: 6}, producer_id=2))
    driver.write_all()
    before = driver.core.hard_state.pending.of_group(G)[T0]
    token = driver.park(marker(producer_id=2))
    driver.fail(E.invalid_producer_epoch)
    assert error_of(driver.response(token)) is E.invalid_producer_epoch
    assert driver.core.hard_state.pending.of_group(G)[T0] == before
    assert driver.offset(*T0) == 3
    for producer_id in (1, 2):
        driver.send(marker(producer_id=producer_id))
    driver.write_all()
    assert driver.offset(*T0) == 6
    assert _commits(driver)[1].client_id == "p"


def test_a_failed_plain_commit_supersedes_nothing(make: Make) -> None:
    driver = make(auto=False)
    driver.send(txn_commit({T0: 5}))
    driver.write_all()
    driver.send(commit({T0: 3}))
    driver.fail(E.message_too_large)
    driver.send(marker())
    driver.write_all()
    assert driver.offset(*T0) == 5


def test_a_failed_tombstone_removes_nothing(make: Make) -> None:
    driver = make(auto=False)
    driver.send(txn_commit({T0: 5}))
    driver.write_all()
    driver.topics_deleted("t")
    driver.fail(E.message_too_large)
    driver.send(marker())
    driver.write_all()
    assert driver.offset(*T0) == 5


# Removal


def test_offset_delete_removes_pending_offsets_too(driver: Driver) -> None:
    driver.exchange(commit({("t", 1): 1}))
    driver.exchange(txn_commit({T0: 5}, producer_id=1))
    driver.exchange(txn_commit({T0: 6}, producer_id=2))
    request = OffsetDelete(api_version=0, group_id=G, topics=(("t", (0, 1, 2)),))
    assert error_of(driver.exchange(request)) is E.none
    assert _stable(driver, T0, ("t", 1)) == [(-1, E.none), (-1, E.none)]
    for producer_id in (1, 2):
        driver.exchange(marker(producer_id=producer_id))
    assert driver.offset(*T0) == -1
    (deleted,) = [event for event in driver.events if isinstance(event, OffsetsDeleted)]
    assert deleted.partitions == (RemovedOffset("t", 1, 1),)
    assert len(driver.log) == 1 + 2 + 2 + 2, "one tombstone for each partition"


def test_a_deleted_group_has_no_pending_offsets(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5}))
    driver.exchange(commit({T0: 1}))
    assert error_of(driver.exchange(DeleteGroups(api_version=2, groups=(G,)))) is E.none
    driver.exchange(marker())
    assert driver.core.groups == {}
    assert driver.core.hard_state.partitions(G) == []


def test_a_deleted_topic_has_no_pending_offsets(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5, ("u", 0): 6}))
    driver.topics_deleted("t")
    driver.exchange(marker())
    assert (driver.offset(*T0), driver.offset("u", 0)) == (-1, 6)


def test_an_offset_with_a_pending_one_does_not_expire(make: Make) -> None:
    driver = make()
    retention_ms = GroupConfig().offsets_retention_ms
    driver.exchange(commit({T0: 1, ("t", 1): 2}))
    driver.exchange(txn_commit({T0: 5}))
    driver.advance(retention_ms + DAY_MS)
    expired = [event.partitions for event in driver.events if isinstance(event, OffsetsExpired)]
    assert expired == [(RemovedOffset("t", 1, 2),)]
    assert driver.offset(*T0) == 1
    driver.exchange(marker(commit=False))
    driver.advance(DAY_MS)
    assert driver.core.groups == {}


def test_a_group_with_only_pending_offsets_is_kept(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5}))
    driver.advance(GroupConfig().offsets_retention_ms + DAY_MS)
    driver.exchange(marker())
    assert driver.offset(*T0) == 5
    assert driver.group().is_simple


def test_a_fetch_of_all_does_not_mention_what_is_only_pending(driver: Driver) -> None:
    driver.exchange(commit({T0: 1}))
    driver.exchange(txn_commit({("t", 1): 5}))
    assert _stable(driver, everything=True) == [(1, E.none)]
    driver.exchange(txn_commit({T0: 5}))
    assert _stable(driver, everything=True) == [(-1, E.unstable_offset_commit)]


# Replay


def test_pending_offsets_survive_a_restart(driver: Driver) -> None:
    driver.exchange(txn_commit({T0: 5}, producer_id=1))
    driver.exchange(commit({T0: 3}))
    driver.exchange(txn_commit({("t", 1): 6}, producer_id=2))
    driver.restart()
    assert driver.group().is_simple
    assert _stable(driver, T0, ("t", 1)) == [(-1, E.unstable_offset_commit)] * 2
    driver.exchange(marker(producer_id=1))
    driver.exchange(marker(producer_id=2))
    driver.restart()
    assert _stable(driver, T0, ("t", 1)) == [(3, E.none), (6, E.none)]


@dataclass(slots=True)
class _Model:
    """Kafka's rule, in its own words: a COMMIT sets the offset if its record has a higher log offset."""

    end: int = 0
    committed: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition: offset, and the log offset of its record."""
    pending: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)
    """Producer id: the same."""

    def next(self) -> int:
        self.end += 1
        return self.end

    def commit(self, partition: int, offset: int) -> None:
        self.committed[partition] = (offset, self.next())

    def txn_commit(self, producer_id: int, partition: int, offset: int) -> None:
        self.pending.setdefault(producer_id, {})[partition] = (offset, self.next())

    def delete(self, partition: int) -> None:
        self.next()
        self.committed.pop(partition, None)
        for offsets in self.pending.values():
            offsets.pop(partition, None)

    def marker(self, producer_id: int, commit: bool) -> None:
        self.next()
        for partition, (offset, at) in self.pending.pop(producer_id, {}).items():
            if commit and at > self.committed.get(partition, (0, -1))[1]:
                self.committed[partition] = (offset, at)

    def seen(self) -> list[tuple[int, ErrorCode]]:
        unstable = {partition for offsets in self.pending.values() for partition in offsets}
        return [
            (-1, E.unstable_offset_commit)
            if partition in unstable
            else (self.committed.get(partition, (-1, 0))[0], E.none)
            for partition in range(2)
        ]


_partitions, _producers, _offsets = st.integers(0, 1), st.integers(1, 3), st.integers(0, 99)
_steps = st.one_of(
    st.tuples(st.just("commit"), _partitions, _offsets),
    st.tuples(st.just("txn_commit"), _producers, _partitions, _offsets),
    st.tuples(st.just("marker"), _producers, st.booleans()),
    st.tuples(st.just("delete"), _partitions),
    st.tuples(st.just("fail"), _producers, _partitions, _offsets),
    st.just(("restart",)),
)


@given(st.lists(_steps, max_size=30))
def test_any_history(steps: list[tuple[object, ...]]) -> None:
    driver, model = Driver(), _Model()
    group = GroupId("g")
    for name, *args in steps:
        match name, args:
            case "commit", [int(partition), int(offset)]:
                driver.exchange(commit({("t", partition): offset}))
                model.commit(partition, offset)
            case "txn_commit", [int(producer_id), int(partition), int(offset)]:
                driver.exchange(txn_commit({("t", partition): offset}, producer_id=producer_id))
                model.txn_commit(producer_id, partition, offset)
            case "marker", [int(producer_id), bool(committed)]:
                driver.exchange(marker(producer_id=producer_id, commit=committed))
                model.marker(producer_id, committed)
            case "delete", [int(partition)]:
                driver.exchange(OffsetDelete(api_version=0, group_id=group, topics=(("t", (partition,)),)))
                model.delete(partition)
            case "fail", [int(producer_id), int(partition), int(offset)]:
                _fail_everything(driver, producer_id, partition, offset)
            case "restart", _:
                driver.restart()
        assert _stable(driver, ("t", 0), ("t", 1)) == model.seen()
        assert driver.replayed() == driver.core.hard_state


def _fail_everything(driver: Driver, producer_id: int, partition: int, offset: int) -> None:
    """Fail steps of every kind in flight, so that none is written."""
    driver.auto = False
    key = ("t", partition)
    driver.send(txn_commit({key: offset}, producer_id=producer_id))
    driver.send(commit({key: offset}))
    driver.send(marker(producer_id=producer_id % 3 + 1))
    driver.send(txn_commit({key: offset}, producer_id=producer_id))
    driver.send(OffsetDelete(api_version=0, group_id=G, topics=(("t", (0, 1)),)))
    driver.send(marker(producer_id=producer_id, commit=False))
    driver.fail(E.not_leader_or_follower)
    driver.auto = True
