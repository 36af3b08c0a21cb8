"""Markers: what they carry, whom they reach again, and when a transaction is complete."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.transactions.events import CoordinatorFenced, MarkerFailed
from muster.actors.transactions.state import TransactionState
from muster.actors.transactions.types import TOPIC_DELETED
from tests.transactions.driver import T0, T1, U0, Driver, Producer, add, end, error_of, init

E = ErrorCode
Make = Callable[..., Driver]
S = TransactionState


@pytest.fixture
def driver(make: Make) -> Driver:
    return make(takes=False, transaction_end_wait_ms=0)


def decided(driver: Driver, *partitions: tuple[str, int]) -> Producer:
    producer = driver.producer(init())
    driver.exchange(add(producer, *partitions))
    assert driver.error(end(producer)) is E.none
    return producer


def test_a_marker_carries_the_decision(driver: Driver) -> None:
    producer = decided(driver, T0, U0)
    (marker,) = driver.markers
    assert (marker.producer_id, marker.producer_epoch) == producer
    assert (marker.commit, marker.partitions, marker.transaction_version) == (True, (T0, U0), 0)
    assert marker.decision == len(driver.log) - 1


def test_markers_are_sent_when_the_decision_is_durable(driver: Driver) -> None:
    producer = driver.producer(init())
    driver.exchange(add(producer, T0))
    driver.auto = False
    driver.park(end(producer))
    assert driver.markers == []
    driver.write_all()
    assert len(driver.markers) == 1


def test_it_is_complete_after_all_of_them(driver: Driver) -> None:
    decided(driver, T0, T1, U0)
    (marker,) = driver.markers
    driver.marked(marker, {T0: E.none, U0: E.none})
    assert driver.metadata().state is S.PREPARE_COMMIT
    assert [(topic.topic, topic.partitions) for topic in driver.described().topics] == [("t", (1,))]
    driver.marked(marker, {T1: E.none})
    assert (driver.metadata().state, driver.metadata().partitions) == (S.COMPLETE_COMMIT, frozenset())
    assert driver.core.sendings == {}


def test_a_topic_that_is_deleted_counts_as_done(driver: Driver) -> None:
    decided(driver, T0, U0)
    driver.mark({U0: TOPIC_DELETED})
    assert driver.metadata().state is S.COMPLETE_COMMIT


@pytest.mark.parametrize("error", [E.unsupported_for_message_format, E.unsupported_version, E.invalid_producer_epoch])
def test_what_could_not_have_an_open_transaction_counts_as_done(driver: Driver, error: E) -> None:
    decided(driver, T0)
    driver.mark({T0: error})
    assert driver.metadata().state is S.COMPLETE_COMMIT
    (event,) = [event for event in driver.events if isinstance(event, MarkerFailed)]
    assert (event.error, event.repeated) == (error, False)


@pytest.mark.parametrize(
    "error",
    [E.unknown_topic_or_partition, E.not_leader_or_follower, E.request_timed_out, E.network_exception,
     E.not_enough_replicas, E.kafka_storage_error, E.unknown_server_error, E.message_too_large],
)  # fmt: skip
def test_everything_else_is_repeated_for_ever(driver: Driver, error: E) -> None:
    decided(driver, T0, U0)
    for _ in range(20):
        driver.mark({U0: error})
        assert driver.unmarked == []
        driver.advance(99)
        assert driver.unmarked == []
        driver.advance(1)
        assert [marker.partitions for marker in driver.unmarked] == [(U0,)]
        assert driver.metadata().state is S.PREPARE_COMMIT
    driver.mark()
    assert driver.metadata().state is S.COMPLETE_COMMIT


def test_another_coordinator_ends_it(driver: Driver) -> None:
    decided(driver, T0, U0)
    driver.mark({U0: E.transaction_coordinator_fenced})
    driver.advance(1_000_000)
    assert driver.unmarked == []
    assert driver.metadata().state is S.PREPARE_COMMIT
    assert [event.partition for event in driver.events if isinstance(event, CoordinatorFenced)] == [U0]


def test_late_results_of_an_earlier_transaction_are_ignored(driver: Driver) -> None:
    producer = decided(driver, T0)
    (first,) = driver.markers
    driver.mark()
    driver.exchange(add(producer, T0))
    driver.exchange(end(producer))
    driver.marked(first, {T0: E.none})
    assert driver.metadata().state is S.PREPARE_COMMIT


def test_the_last_record_is_written_again(driver: Driver) -> None:
    decided(driver, T0)
    driver.auto = False
    driver.mark()
    driver.fail(E.request_timed_out)
    assert driver.metadata().state is S.PREPARE_COMMIT
    driver.advance(100)
    driver.write_all()
    assert driver.metadata().state is S.COMPLETE_COMMIT


def test_the_next_transaction_follows_at_once(driver: Driver) -> None:
    """The end is decided on top of the last record, and answered when both are durable."""
    producer = decided(driver, T0)
    driver.auto = False
    driver.mark()
    tokens = [driver.park(add(producer, U0)), driver.park(end(producer, commit=False))]
    assert len(driver.markers) == 1
    driver.write_all()
    assert {error_of(driver.responses[token]) for token in tokens} == {E.none}
    assert driver.markers[-1].partitions == (U0,)


def test_a_successor_sends_all_of_them_again(driver: Driver) -> None:
    producer = decided(driver, T0, U0)
    (before,) = driver.markers
    driver.marked(before, {T0: E.none})
    driver.restart()
    (after,) = driver.unmarked
    assert after == before
    assert driver.error(add(producer, T0)) is E.concurrent_transactions
    driver.mark()
    assert driver.error(end(producer)) is E.none
    assert driver.metadata().state is S.COMPLETE_COMMIT


@pytest.mark.parametrize("commit", [True, False])
def test_crashes_from_the_beginning_to_the_end(make: Make, commit: bool) -> None:
    """Before the decision is durable nothing is decided; after it, nothing changes it."""
    driver = make(takes=False)
    producer = driver.producer(init())
    driver.auto = False
    driver.park(add(producer, T0))
    driver.restart()
    assert driver.metadata().state is S.EMPTY
    driver.park(add(producer, T0))
    driver.write_all()
    driver.restart()
    driver.park(end(producer, commit=commit))
    driver.restart()
    assert driver.metadata().state is S.ONGOING
    driver.park(end(producer, commit=commit))
    driver.write_all()
    for _ in range(3):
        driver.restart()
        assert error_of(driver.exchange(end(producer, commit=not commit))) is E.concurrent_transactions
        driver.mark()
    driver.write_all()
    driver.restart()
    assert driver.unmarked == []
    assert driver.error(end(producer, commit=commit)) is E.none
    assert driver.error(end(producer, commit=not commit)) is E.invalid_txn_state
    assert {marker.commit for marker in driver.markers} == {commit}
