"""The rebalance journal, fed by the coordinator itself. Each number is computed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.codec.primitives import Writer
from muster.actors.group.events import Cause, PendingEnd, Removal
from muster.actors.group.types import Outcome
from muster.actors.group.watchdog import MAX_MEMBERS
from muster.actors.offsets.history.journal import Journal
from muster.actors.tables.rebalance_entry import (
    MAX_PARTITIONS,
    Ending,
    RebalanceEntry,
    RebalanceProtocol,
    Wait,
)
from tests.group.driver import HOST, RANGE, ROUNDROBIN, Driver, G, assignment, beat, join, leave, subscription, sync

EPOCH = 3


class Journaled(Driver):
    """A driver whose events go into a journal, each with the time of its step."""

    def __init__(self, **kwargs: Any) -> None:
        self.journal = Journal(partition=7, epoch=EPOCH)
        self.entries: list[RebalanceEntry] = []
        self.origin_ms = 1_000_000
        super().__init__(**kwargs)

    def _take(self, outcome: Outcome) -> None:
        for event in outcome.events:
            if entry := self.journal.observe(event, self.now_ms):
                self.entries.append(entry)
        super()._take(outcome)

    def at(self, ms: int) -> None:
        self.advance(self.origin_ms + ms - self.now_ms)

    def restart(self) -> None:
        self.journal = Journal(partition=7, epoch=EPOCH + 1)
        super().restart()

    @property
    def last(self) -> RebalanceEntry:
        return self.entries[-1]


def owning(*partitions: tuple[str, int], topic: str = "t") -> bytes:
    """ConsumerProtocolSubscription v1 with owned partitions."""
    out = Writer().int16(1).int32(1).string(topic).int32(-1).int32(len(partitions))
    for name, partition in partitions:
        out.string(name).int32(1).int32(partition)
    return out.bytes()


def cooperative(*partitions: tuple[str, int]) -> tuple[tuple[str, bytes], ...]:
    return (("cooperative-sticky", owning(*partitions)),)


def give(**shares: list[int]) -> dict[str, bytes]:
    return {member: assignment(*(("t", index) for index in shares_of)) for member, shares_of in shares.items()}


@pytest.fixture
def driver() -> Journaled:
    return Journaled()


def pair(driver: Journaled, *, rebalance_ms: int = 60_000, session_ms: int = 10_000) -> tuple[str, str]:
    """Make a Stable eager group: the leader has t-0 and t-1, the other t-2.

    The time is 3000 ms, and no entry is left.
    """
    options: dict[str, Any] = {"rebalance_ms": rebalance_ms, "session_ms": session_ms}
    a, b = (
        response.member_id for response in driver.responses_to([driver.new_member(c, **options) for c in ("ca", "cb")])
    )
    driver.park(sync(b, 1))
    driver.exchange(sync(a, 1, share(a, b)))
    driver.entries.clear()
    driver.origin_ms = driver.now_ms - 3000
    return a, b


def share(a: str, b: str) -> dict[str, bytes]:
    return {a: assignment(("t", 0), ("t", 1)), b: assignment(("t", 2))}


def waits(found: tuple[Wait, ...]) -> list[tuple[str, int | None, int]]:
    return [(wait.who.member_id, wait.after_ms, wait.held_ms) for wait in found]


def pauses(entry: RebalanceEntry) -> dict[int, int]:
    assert entry.consumption_pauses is not None
    return {pause.partition: pause.ms for pause in entry.consumption_pauses.partitions}


def test_the_first_rebalance(driver: Journaled) -> None:
    driver.at(500)
    token = driver.new_member("billing-1")
    driver.at(3500)
    a = driver.response(token).member_id
    driver.at(3540)
    driver.exchange(sync(a, 1, {a: assignment(("t", 0))}))
    (entry,) = driver.entries
    assert (entry.group, entry.offsets_partition, entry.epoch, entry.number) == (G, 7, EPOCH, 1)
    assert (entry.began_ms, entry.joined_ms, entry.stable_ms, entry.ended_ms) == tuple(
        driver.origin_ms + ms for ms in (500, 3500, 3540, 3540)
    )
    assert (entry.ending, entry.cause, entry.from_state) == (Ending.STABLE, Cause.MEMBER_JOINED, "Empty")
    assert entry.triggered_by is not None
    assert entry.triggered_by == (a, "billing-1", HOST, None)
    assert (entry.previous_generation, entry.generation, entry.leader) == (0, 1, a)
    assert (entry.protocol_type, entry.protocol) == ("consumer", "range")
    assert entry.rebalance_protocol is RebalanceProtocol.EAGER
    assert (entry.members_before, entry.members_after) == (0, 1)
    assert entry.join_waits.members == ()
    assert waits(entry.sync_waits.members) == [(a, 40, 40)]
    assert [who.member_id for who in entry.added] == [a]
    assert entry.consumption_pauses is not None
    assert (entry.consumption_pauses.assigned, entry.consumption_pauses.count, entry.consumption_pauses.lost_ms) == (
        0,
        0,
        0,
    )


def test_eager_every_partition_stands_still_until_its_new_owner_has_it(driver: Journaled) -> None:
    """From 5000, when c joins: a rejoins at 5200, b at 6000; a syncs at 6100 (Stable), c before, b only at 6150."""
    a, b = pair(driver)
    driver.at(5000)
    c_token = driver.new_member("cc")
    driver.at(5200)
    driver.park(join(a))
    driver.at(6000)
    driver.exchange(join(b))
    c = driver.response(c_token).member_id
    driver.at(6010)
    driver.park(sync(c, 2))
    driver.at(6100)
    driver.exchange(sync(a, 2, {a: assignment(("t", 0)), b: assignment(("t", 1)), c: assignment(("t", 2))}))
    assert driver.entries == [], "b was not sent its assignment yet"
    assert driver.journal.running(G, driver.now_ms).ending is Ending.RUNNING  # type: ignore[union-attr]
    driver.at(6150)
    driver.exchange(sync(b, 2))
    (entry,) = driver.entries
    assert (entry.ending, entry.cause) == (Ending.STABLE, Cause.MEMBER_JOINED)
    assert entry.triggered_by is not None
    assert (entry.triggered_by.member_id, entry.triggered_by.client_id) == (c, "cc")
    assert (entry.stable_ms, entry.ended_ms) == (driver.origin_ms + 6100, driver.origin_ms + 6150)
    assert waits(entry.join_waits.members) == [(b, 1000, 1000), (a, 200, 200)]
    assert waits(entry.sync_waits.members) == [(b, 150, 150), (a, 100, 100), (c, 10, 10)]
    assert (entry.members_before, entry.members_after) == (2, 3)
    assert pauses(entry) == {0: 1100, 1: 1150, 2: 1100}
    assert entry.consumption_pauses is not None
    assert (entry.consumption_pauses.assigned, entry.consumption_pauses.count, entry.consumption_pauses.lost_ms) == (
        3,
        3,
        3350,
    )


def test_cooperative_only_what_changes_its_owner_until_the_new_one_has_it(driver: Journaled) -> None:
    """a owns t-0, t-1, t-2. b joins. Generation 2, Stable at 5300, takes t-2 from a; 3, at 5900, gives it to b."""
    a = driver.responses_to([driver.new_member("ca", protocols=cooperative())])[0].member_id
    whole = assignment(("t", 0), ("t", 1), ("t", 2))
    less = assignment(("t", 0), ("t", 1))
    driver.exchange(sync(a, 1, {a: whole}, protocol="cooperative-sticky"))
    assert driver.last.rebalance_protocol is RebalanceProtocol.COOPERATIVE
    driver.at(5000)
    b_token = driver.new_member("cb", protocols=cooperative())
    assert driver.journal.running(G, driver.now_ms + 9).consumption_pauses.count == 0  # type: ignore[union-attr]
    driver.at(5200)
    driver.exchange(join(a, protocols=cooperative(("t", 0), ("t", 1), ("t", 2))))
    b = driver.response(b_token).member_id
    driver.park(sync(b, 2, protocol="cooperative-sticky"))
    driver.at(5300)
    driver.exchange(sync(a, 2, {a: less, b: assignment()}, protocol="cooperative-sticky"))
    assert pauses(driver.last) == {}
    driver.at(5400)
    driver.park(join(a, protocols=cooperative(("t", 0), ("t", 1))))
    driver.at(5700)
    driver.exchange(join(b, protocols=cooperative()))
    driver.park(sync(b, 3, protocol="cooperative-sticky"))
    driver.at(5900)
    driver.exchange(sync(a, 3, {a: less, b: assignment(("t", 2))}, protocol="cooperative-sticky"))
    third = driver.last
    assert (third.generation, third.cause) == (3, Cause.PROTOCOLS_CHANGED)
    assert pauses(third) == {2: 600}
    assert third.consumption_pauses is not None
    assert (third.consumption_pauses.assigned, third.consumption_pauses.lost_ms) == (3, 600)


def test_cooperative_what_nobody_wants_any_more_is_not_counted(driver: Journaled) -> None:
    a = driver.responses_to([driver.new_member(protocols=cooperative())])[0].member_id
    name = "cooperative-sticky"
    driver.exchange(sync(a, 1, {a: assignment(("t", 0), ("u", 0))}, protocol=name))
    for at_ms, generation, owned in ((5000, 2, (("t", 0), ("u", 0))), (7000, 3, (("t", 0),))):
        driver.at(at_ms)
        driver.exchange(join(a, protocols=cooperative(*owned)))
        driver.exchange(sync(a, generation, {a: assignment(("t", 0))}, protocol=name))
        assert pauses(driver.last) == {}


def test_cooperative_partitions_of_a_member_that_left_stand_still_from_the_beginning(driver: Journaled) -> None:
    a, b = (r.member_id for r in driver.responses_to([driver.new_member(protocols=cooperative()) for _ in "ab"]))
    name = "cooperative-sticky"
    driver.park(sync(b, 1, protocol=name))
    driver.exchange(sync(a, 1, {a: assignment(("t", 0)), b: assignment(("t", 1))}, protocol=name))
    driver.at(4000)
    driver.exchange(leave(b))
    assert pauses(driver.journal.running(G, driver.origin_ms + 4100)) == {1: 100}  # type: ignore[arg-type]
    driver.at(4250)
    driver.exchange(join(a, protocols=cooperative(("t", 0))))
    driver.at(4300)
    driver.exchange(sync(a, 2, {a: assignment(("t", 0), ("t", 1))}, protocol=name))
    assert pauses(driver.last) == {1: 300}


def test_a_member_left_and_said_why(driver: Journaled) -> None:
    a, b = pair(driver)
    driver.at(4000)
    request = leave(b)
    (member,) = request.members
    driver.exchange(replace(request, members=(replace(member, reason="the consumer is being closed"),)))
    driver.at(4500)
    driver.exchange(join(a))
    driver.exchange(sync(a, 2, {a: assignment(("t", 0), ("t", 1), ("t", 2))}))
    entry = driver.last
    assert (entry.cause, entry.reason) == (Cause.MEMBER_LEFT, "the consumer is being closed")
    assert entry.triggered_by is not None
    assert entry.triggered_by == (b, "cb", HOST, None)
    assert [(gone.who.member_id, gone.cause, gone.reason) for gone in entry.gone] == [
        (b, None, "the consumer is being closed")
    ]
    assert (entry.members_before, entry.members_after) == (2, 1)
    assert waits(entry.join_waits.members) == [(a, 500, 500)]
    assert pauses(entry) == {0: 500, 1: 500, 2: 500}


def test_a_session_expired(driver: Journaled) -> None:
    a, b = pair(driver)
    driver.at(9000)
    driver.exchange(beat(a, 1))
    driver.at(13_000)
    driver.exchange(join(a))
    driver.exchange(sync(a, 2, {a: assignment(("t", 2))}))
    entry = driver.last
    assert (entry.cause, entry.began_ms) == (Cause.SESSION_EXPIRED, driver.origin_ms + 13_000)
    assert entry.triggered_by is not None
    assert entry.triggered_by.member_id == b
    assert [(gone.who.member_id, gone.cause) for gone in entry.gone] == [(b, Removal.SESSION_EXPIRED)]
    assert pauses(entry) == {0: 0, 1: 0, 2: 0}


def test_who_does_not_rejoin_is_awaited_and_expelled(driver: Journaled) -> None:
    """The leader requests a rebalance at 4000; b keeps its session but never rejoins; 20 s is the rebalance timeout."""
    a, b = pair(driver, rebalance_ms=20_000)
    driver.at(4000)
    driver.park(join(a, rebalance_ms=20_000)._replace(reason="topics changed"))
    for at_ms in range(5000, 24_000, 1000):
        driver.at(at_ms)
        driver.exchange(beat(b, 1))
    driver.at(24_000)
    driver.exchange(sync(a, 2, {a: assignment(("t", 0), ("t", 1), ("t", 2))}))
    entry = driver.last
    assert (entry.cause, entry.reason) == (Cause.LEADER_REJOINED, "topics changed")
    assert waits(entry.join_waits.members) == [(b, None, 20_000), (a, 0, 0)]
    assert entry.join_waits.slowest is not None
    assert entry.join_waits.slowest.who.client_id == "cb"
    assert [(gone.who.member_id, gone.cause) for gone in entry.gone] == [(b, Removal.REBALANCE_TIMEOUT)]
    assert pauses(entry) == {0: 20_000, 1: 20_000, 2: 20_000}


def test_other_protocols(driver: Journaled) -> None:
    a, b = pair(driver)
    driver.at(4000)
    more = (("range", subscription("t", "u")),)
    driver.park(join(b, protocols=more))
    driver.exchange(join(a))
    assert driver.journal.running(G, driver.now_ms).cause is Cause.PROTOCOLS_CHANGED  # type: ignore[union-attr]


def test_static_member_replaced_in_the_join_phase_keeps_its_place(driver: Journaled) -> None:
    a, b = (
        response.member_id
        for response in driver.responses_to([driver.park(join(instance=i), client=i) for i in ("ia", "ib")])
    )
    driver.park(sync(b, 1, instance="ib"))
    driver.exchange(sync(a, 1, share(a, b), instance="ia"))
    driver.at(5000)
    driver.park(join(a, instance="ia"))
    driver.at(5300)
    response = driver.exchange(join(instance="ib"))
    new_b = response.member_id
    driver.park(sync(new_b, 2, instance="ib"))
    driver.exchange(sync(a, 2, share(a, new_b), instance="ia"))
    entry = driver.last
    assert new_b != b
    assert waits(entry.join_waits.members) == [(new_b, 300, 300), (a, 0, 0)]
    assert (entry.members_before, entry.members_after, entry.added, entry.gone) == (2, 2, (), ())
    assert pauses(entry) == {0: 300, 1: 300, 2: 300}


def test_static_member_replaced_with_other_protocols(driver: Journaled) -> None:
    a = driver.stable_static("ia")[0]
    driver.at(5000)
    new_a = driver.exchange(join(instance="ia", protocols=(ROUNDROBIN, RANGE))).member_id
    driver.exchange(sync(new_a, 2, {}, instance="ia", protocol="roundrobin"))
    entry = driver.last
    assert (entry.cause, entry.protocol) == (Cause.STATIC_MEMBER_REPLACED, "roundrobin")
    assert entry.triggered_by is not None
    assert (entry.triggered_by.member_id, entry.triggered_by.group_instance_id) == (new_a, "ia")
    assert (entry.members_before, entry.members_after) == (1, 1)
    assert new_a != a


def test_members_that_never_sync_restart_the_rebalance(driver: Journaled) -> None:
    """The leader a syncs at 4000, b never: at 3000 + 60 s it is expelled, since Stable does not wait for it."""
    a, b = (r.member_id for r in driver.responses_to([driver.new_member(c, session_ms=100_000) for c in ("ca", "cb")]))
    driver.origin_ms = driver.now_ms - 3000
    driver.at(4000)
    driver.exchange(sync(a, 1, share(a, b)))
    driver.at(63_000)
    first = driver.last
    assert (first.ending, first.generation) == (Ending.STABLE, 1)
    assert waits(first.sync_waits.members) == [(b, None, 60_000), (a, 1000, 1000)]
    running = driver.journal.running(G, driver.now_ms)
    assert running is not None
    assert (running.cause, running.number) == (Cause.SYNC_TIMEOUT, 2)
    assert running.triggered_by is not None
    assert running.triggered_by.member_id == b
    assert [(gone.who.member_id, gone.cause) for gone in running.gone] == [(b, Removal.SYNC_TIMEOUT)]
    assert (running.members_before, running.members_after) == (2, None)


def test_a_rebalance_that_begins_again_before_it_is_stable(driver: Journaled) -> None:
    """Eager: both entries together count each ms once."""
    a, b = pair(driver)
    driver.at(4000)
    driver.park(join(a))
    driver.at(4100)
    driver.exchange(join(b))
    driver.at(4500)
    c_token = driver.new_member("cc")
    restarted = driver.last
    assert (restarted.ending, restarted.generation, restarted.stable_ms) == (Ending.RESTARTED, 2, None)
    assert restarted.ended_ms == driver.origin_ms + 4500
    assert waits(restarted.sync_waits.members) == [(a, None, 400), (b, None, 400)]
    assert pauses(restarted) == {0: 500, 1: 500, 2: 500}
    driver.at(4700)
    driver.park(join(a))
    driver.exchange(join(b))
    c = driver.response(c_token).member_id
    driver.park(sync(b, 3))
    driver.park(sync(c, 3))
    driver.exchange(sync(a, 3, share(a, b)))
    entry = driver.last
    assert (entry.number, entry.from_state, entry.previous_generation, entry.generation) == (
        restarted.number + 1,
        "CompletingRebalance",
        2,
        3,
    )
    assert pauses(entry) == {0: 200, 1: 200, 2: 200}


def test_an_assignment_that_could_not_be_written() -> None:
    driver = Journaled(auto=False)
    token = driver.new_member()
    driver.write_all()
    driver.at(3000)
    a = driver.response(token).member_id
    driver.send(sync(a, 1, {a: assignment(("t", 0))}))
    driver.at(3200)
    driver.fail(ErrorCode.not_leader_or_follower)
    assert (driver.last.ending, driver.last.stable_ms) == (Ending.RESTARTED, None)
    running = driver.journal.running(G, driver.now_ms)
    assert running is not None
    assert (running.cause, running.triggered_by) == (Cause.ASSIGNMENT_NOT_WRITTEN, None)


def test_a_group_that_becomes_empty(driver: Journaled) -> None:
    a, b = pair(driver)
    driver.exchange(leave(a, b))
    (entry,) = driver.entries
    assert (entry.ending, entry.generation, entry.members_before, entry.members_after) == (Ending.EMPTY, 2, 2, 0)
    assert (entry.protocol, entry.leader, entry.stable_ms) == (None, None, None)
    assert [gone.who.member_id for gone in entry.gone] == [a, b]
    assert driver.journal.running(G, driver.now_ms) is None
    driver.at(10_000)
    c = driver.responses_to([driver.new_member()])[0].member_id
    driver.exchange(sync(c, 3, {c: assignment(("t", 0))}))
    assert driver.last.consumption_pauses is not None
    assert driver.last.consumption_pauses.assigned == 0, "what an Empty group once had does not count"


def test_the_coordinator_resigns(driver: Journaled) -> None:
    a, _ = pair(driver)
    driver.at(4000)
    driver.park(join(a))
    driver.at(4300)
    driver.resign()
    (entry,) = driver.entries
    assert (entry.ending, entry.generation, entry.joined_ms) == (Ending.ABORTED, None, None)
    assert pauses(entry) == {0: 300, 1: 300, 2: 300}
    assert driver.journal.close(driver.now_ms) == []


def test_after_a_restart_the_log_says_what_was_assigned(driver: Journaled) -> None:
    a, b = pair(driver)
    driver.at(5000)
    driver.restart()
    driver.park(join(a))
    driver.at(5400)
    driver.exchange(join(b))
    driver.park(sync(b, 2))
    driver.exchange(sync(a, 2, share(a, b)))
    entry = driver.last
    assert (entry.epoch, entry.number, entry.members_before) == (EPOCH + 1, 1, 2)
    assert pauses(entry) == {0: 400, 1: 400, 2: 400}


def test_more_members_than_group_max_size_after_a_restart() -> None:
    driver = Journaled()
    a, b = pair(driver)
    driver.config = replace(driver.config, group_max_size=1)
    driver.restart()
    driver.at(4000)
    driver.park(join(b))
    driver.exchange(join(a))
    driver.exchange(sync(b, 2, {b: assignment(("t", 0))}))
    entry = driver.last
    assert (entry.cause, entry.triggered_by, entry.members_before) == (Cause.TOO_MANY_MEMBERS, None, 2)
    assert [(gone.who.member_id, gone.cause) for gone in entry.gone] == [(a, Removal.GROUP_FULL)]


def test_a_handed_out_id_holds_the_join_phase_up(driver: Journaled) -> None:
    a, b = pair(driver)
    driver.at(4000)
    driver.exchange(join(), client="hesitating")
    driver.park(join(a))
    driver.exchange(beat(b, 1))
    driver.at(4100)
    token = driver.send(join(b))
    driver.at(14_000)
    driver.response(token)
    running = driver.journal.running(G, driver.now_ms)
    assert running is not None
    ((pending),) = running.pending
    assert (pending.who.client_id, pending.who.host, pending.held_ms, pending.end) == (
        "hesitating",
        HOST,
        10_000,
        PendingEnd.EXPIRED,
    )
    assert running.joined_ms == driver.origin_ms + 14_000


def test_what_another_protocol_type_assigns_is_not_known(driver: Journaled) -> None:
    protocols = (("default", b"\0\0"),)
    token = driver.new_member(protocols=protocols, protocol_type="connect")
    a = driver.responses_to([token])[0].member_id
    driver.exchange(sync(a, 1, {a: assignment(("t", 0))}, protocol_type="connect", protocol="default"))
    assert (driver.last.consumption_pauses, driver.last.rebalance_protocol) == (None, None)
    assert driver.last.protocol_type == "connect"


def test_lists_are_bounded(driver: Journaled) -> None:
    count = MAX_MEMBERS + 5
    joins = driver.responses_to([driver.new_member() for _ in range(count)])
    driver.sync_all(joins, lambda member: assignment(*((member, index) for index in range(3))))
    first = driver.last
    assert (len(first.added), first.added_left_out, first.sync_waits.left_out) == (MAX_MEMBERS, 5, 5)
    driver.at(5000)
    tokens = [driver.send(join(each.member_id)) for each in joins]
    driver.sync_all([driver.response(token) for token in tokens])
    entry = driver.last
    assert entry.consumption_pauses is not None
    assert entry.consumption_pauses.count == 3 * count
    assert (len(entry.consumption_pauses.partitions), entry.consumption_pauses.left_out) == (
        MAX_PARTITIONS,
        3 * count - MAX_PARTITIONS,
    )
    assert (len(entry.join_waits.members), entry.join_waits.left_out) == (MAX_MEMBERS, 5)


def test_entries_as_json(driver: Journaled) -> None:
    a, b = pair(driver)
    driver.at(4000)
    driver.exchange(join(), client="hesitating")
    driver.exchange(leave(b))
    driver.at(4500)
    driver.send(join(a))
    driver.at(14_000)
    driver.exchange(sync(a, 2, {a: assignment(("t", 0))}))
    for entry in driver.entries:
        assert RebalanceEntry.from_json(json.loads(json.dumps(entry.to_json()))) == entry
    assert driver.last.pending
    assert driver.last.gone
