"""The watchdog: once per phase, by the core's clock, with names. And the members that wait now."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from kio.schema.errors import ErrorCode

from muster.actors.group.consumer.state import ConsumerGroupState
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.events import RebalanceMovedOn, RebalanceStuck
from muster.actors.group.messages import ConsumerGroupHeartbeat
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId, MemberId
from muster.actors.group.watchdog import described
from tests.group.driver import HOST, Driver, assignment, beat, commit, join, sync


def stuck(driver: Driver) -> list[RebalanceStuck]:
    return [event for event in driver.events if isinstance(event, RebalanceStuck)]


def moved_on(driver: Driver) -> list[RebalanceMovedOn]:
    return [event for event in driver.events if isinstance(event, RebalanceMovedOn)]


def keep_alive(driver: Driver, member: str, seconds: int) -> None:
    for _ in range(seconds):
        driver.advance(1000)
        driver.exchange(beat(member, 1))


def pair(driver: Driver, **options: int) -> list[str]:
    """Make a Stable group; return the members' ids, the leader first."""
    return driver.stable(2, **options)


def test_a_join_phase_that_lasts_names_the_member_once(driver: Driver) -> None:
    a, b = pair(driver, rebalance_ms=300_000)
    driver.park(join(a, rebalance_ms=300_000))
    began_ms = driver.now_ms
    keep_alive(driver, b, 29)
    assert stuck(driver) == []
    keep_alive(driver, b, 200)
    (event,) = stuck(driver)
    assert (event.state, event.generation, event.duration_ms) == (GroupState.PREPARING_REBALANCE, 1, 30_000)
    assert [who.member_id for who in event.members] == [b]
    assert event.deadline_ms == began_ms + 300_000
    assert described(event, began_ms + 30_000) == (
        f"group g: PreparingRebalance for 30.0 s (generation 1), waits for JoinGroup of member {b} "
        f"(client.id c, host {HOST}); continues without them in 270.0 s"
    )
    assert moved_on(driver) == []
    driver.exchange(join(b, rebalance_ms=300_000))
    (over,) = moved_on(driver)
    assert (over.state, over.duration_ms) == (GroupState.PREPARING_REBALANCE, 229_000)


def test_half_the_rebalance_timeout_if_that_is_shorter(driver: Driver) -> None:
    a, b = pair(driver, rebalance_ms=20_000)
    driver.park(join(a, rebalance_ms=20_000))
    keep_alive(driver, b, 9)
    assert stuck(driver) == []
    keep_alive(driver, b, 1)
    assert [event.duration_ms for event in stuck(driver)] == [10_000]


def test_an_assignment_that_does_not_come_names_the_leader_first(driver: Driver) -> None:
    joins = driver.responses_to([driver.new_member(session_ms=100_000) for _ in range(3)])
    a, b, c = (each.member_id for each in joins)
    driver.park(sync(b, 1))
    driver.advance(30_000)
    (event,) = stuck(driver)
    assert (event.state, event.leader) == (GroupState.COMPLETING_REBALANCE, a)
    assert [who.member_id for who in event.members] == [a, c]
    assert f"waits for SyncGroup of leader {a} (client.id c, host {HOST}), member {c} " in described(event, 0)
    driver.exchange(sync(a, 1, {a: assignment(("t", 0))}))
    assert [over.state for over in moved_on(driver)] == [GroupState.COMPLETING_REBALANCE]


def test_a_handed_out_id_is_named(driver: Driver) -> None:
    (a,) = driver.stable()
    driver.exchange(join(session_ms=100_000, rebalance_ms=20_000), client="hesitating")
    driver.park(join(a, rebalance_ms=20_000))
    driver.advance(10_000)
    (event,) = stuck(driver)
    assert (event.members, [who.client_id for who in event.pending]) == ((), ["hesitating"])
    assert "new client with handed-out id" in described(event, driver.now_ms)


def test_static_members_are_named_with_their_instance(driver: Driver) -> None:
    a = driver.stable_static("ia", "ib", session_ms=100_000)[0]
    driver.park(join(a, instance="ia"))
    driver.advance(30_000)
    assert "group.instance.id ib" in described(stuck(driver)[0], driver.now_ms)


def test_the_initial_delay_is_no_wait_for_anybody(make) -> None:  # type: ignore[no-untyped-def]
    driver = make(group_initial_rebalance_delay_ms=40_000)
    token = driver.new_member(session_ms=100_000)
    driver.advance(39_000)
    assert stuck(driver) == []
    (wait,) = driver.core.waiting()
    assert (wait.initial_delay, wait.members, wait.pending) == (True, (), ())
    driver.advance(1000)
    assert driver.response(token).generation_id == 1


def test_each_phase_is_reported_for_itself_and_a_short_one_not_at_all(driver: Driver) -> None:
    a, b = pair(driver, session_ms=200_000)
    driver.park(join(a, session_ms=200_000))
    driver.advance(30_000)
    driver.exchange(join(b, session_ms=200_000))
    driver.advance(30_000)
    driver.park(sync(b, 2))
    driver.exchange(sync(a, 2, {}))
    assert [event.state for event in stuck(driver)] == [
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
    ]
    assert [event.duration_ms for event in moved_on(driver)] == [30_000, 30_000]
    driver.advance(100_000)
    assert len(stuck(driver)) == 2


def test_who_waits_now(driver: Driver) -> None:
    driver.exchange(commit({("t", 0): 5}, group="simple"))
    a, b = pair(driver, rebalance_ms=60_000)
    assert driver.core.waiting() == ()
    driver.park(join(a))
    (wait,) = driver.core.waiting()
    assert wait.to_json() == {
        "group": "g",
        "state": "PreparingRebalance",
        "generation": 1,
        "since_ms": driver.now_ms,
        "deadline_ms": driver.now_ms + 60_000,
        "initial_delay": False,
        "leader": a,
        "members": [{"member_id": b, "client_id": "c", "host": HOST, "group_instance_id": None}],
        "members_left_out": 0,
        "pending": [],
        "pending_left_out": 0,
    }


def test_no_look_is_taken_during_the_initial_delay_however_short_the_rebalance_timeout(driver: Driver) -> None:
    driver.park(join(version=3, rebalance_ms=0))
    looks = 0
    while driver.group().in_initial_delay:
        due_ms = driver.core.next_deadline_ms()
        assert due_ms is not None
        driver.advance(due_ms - driver.now_ms)
        looks += 1
    assert looks <= 3
    assert stuck(driver) == []


def test_names_that_clients_chose_make_no_lines_of_their_own(driver: Driver) -> None:
    driver.park(join(version=3, session_ms=60_000), client="a\nERROR")
    driver.advance(50_000)
    (event,) = stuck(driver)
    assert described(event, driver.now_ms).splitlines() == [described(event, driver.now_ms)]
    assert "client.id a\\nERROR, host" in described(event, driver.now_ms)


def consumers(driver: Driver) -> list[ConsumerGroupHeartbeat]:
    """Two members of a consumer group: the first one has both partitions, and has to give up one."""
    driver.topics_known({"t": TopicInfo(UUID(int=1), 2)})
    first, second = (
        ConsumerGroupHeartbeat(
            api_version=1,
            group_id=GroupId("g"),
            member_id=MemberId(name),
            member_epoch=0,
            rebalance_timeout_ms=300_000,
            topics=("t",),
            owned=frozenset(),
        )
        for name in ("a", "b")
    )
    both = frozenset({(UUID(int=1), 0), (UUID(int=1), 1)})
    first = replace(first, member_epoch=driver.exchange(first).member_epoch, owned=both)
    driver.advance(1_000)
    return [first, replace(second, member_epoch=driver.exchange(second).member_epoch)]


def keep_consumers(driver: Driver, members: list[ConsumerGroupHeartbeat], seconds: int) -> None:
    """They heartbeat, and give up nothing."""
    for _ in range(seconds // 10):
        driver.advance(10_000)
        for member in members:
            assert driver.error(member) is ErrorCode.none


def test_a_consumer_group_that_does_not_get_stable_names_its_members_once(driver: Driver) -> None:
    members = consumers(driver)
    began_ms = driver.now_ms
    driver.exchange(members[0])
    keep_consumers(driver, members, 20)
    assert stuck(driver) == []
    keep_consumers(driver, members, 60)
    (event,) = stuck(driver)
    assert (event.state, event.generation, event.duration_ms) == (ConsumerGroupState.RECONCILING, 3, 30_000)
    assert [who.member_id for who in event.members] == ["a", "b"], "first the one that has to give up something"
    assert event.deadline_ms == began_ms + 300_000
    assert described(event, began_ms + 30_000) == (
        f"group g: Reconciling for 30.0 s (epoch 3), waits for heartbeats of member a (client.id c, host {HOST}), "
        f"member b (client.id c, host {HOST}); members that give up no partitions are removed in 270.0 s"
    )
    assert moved_on(driver) == []
    for member in (replace(members[0], owned=frozenset({(UUID(int=1), 0)})), members[1]):
        driver.exchange(member)
    (over,) = moved_on(driver)
    assert (over.state, over.duration_ms) == (ConsumerGroupState.RECONCILING, 80_000)
    keep_consumers(driver, [], 100)
    assert len(stuck(driver)) == 1


def test_a_consumer_group_that_gets_stable_in_time_is_not_reported(driver: Driver) -> None:
    members = consumers(driver)
    driver.exchange(replace(members[0], owned=frozenset()))
    driver.exchange(members[1])
    driver.advance(40_000)
    assert stuck(driver) == []


def test_a_consumer_group_is_watched_again_after_a_restart(driver: Driver) -> None:
    members = consumers(driver)
    driver.exchange(members[0])
    driver.restart()
    keep_consumers(driver, members, 30)
    assert [event.duration_ms for event in stuck(driver)] == [30_000]


def test_a_group_that_becomes_a_consumer_group_is_watched(driver: Driver) -> None:
    driver.topics_known({"t": TopicInfo(UUID(int=1), 2)})
    driver.stable(1, rebalance_ms=300_000, session_ms=300_000)
    member = ConsumerGroupHeartbeat(
        api_version=1,
        group_id=GroupId("g"),
        member_id=MemberId("new"),
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        topics=("t",),
        owned=frozenset(),
    )
    member = replace(member, member_epoch=driver.exchange(member).member_epoch)
    keep_consumers(driver, [member], 30)
    assert [event.duration_ms for event in stuck(driver)] == [30_000]
