"""Transactions that time out, and transactional ids that expire."""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from muster.actors.transactions.events import FenceCause, TransactionalIdsExpired, TransactionFenced
from muster.actors.transactions.state import TransactionState
from tests.transactions.driver import T0, Driver, add, at_epoch, end, init, verify

E = ErrorCode
Make = Callable[..., Driver]
S = TransactionState


def test_the_timeout_to_the_millisecond(make: Make) -> None:
    driver = make(transaction_abort_timed_out_transaction_cleanup_interval_ms=1, transaction_version=1)
    producer_id, epoch = at_epoch(driver, 3)
    driver.exchange(add((producer_id, epoch), T0))
    driver.advance(60_000)
    assert driver.metadata().state is S.ONGOING
    driver.advance(1)
    assert driver.metadata().state is S.COMPLETE_ABORT
    assert [(marker.producer_epoch, marker.commit) for marker in driver.markers] == [(4, False)]
    (fenced,) = [event for event in driver.events if isinstance(event, TransactionFenced)]
    assert fenced.cause is FenceCause.TIMED_OUT


def test_a_failover_does_not_start_the_clock_again(driver: Driver) -> None:
    producer = driver.producer(init())
    driver.exchange(add(producer, T0))
    driver.advance(59_000)
    driver.restart()
    driver.advance(9_999)
    assert driver.metadata().state is S.ONGOING
    driver.advance(1)
    assert driver.metadata().state is S.COMPLETE_ABORT


def test_the_timeout_is_that_of_the_last_request(driver: Driver) -> None:
    driver.producer(init(timeout_ms=900_000))
    driver.exchange(add(driver.producer(init(timeout_ms=1)), T0))
    driver.advance(10_000)
    assert driver.metadata().state is S.COMPLETE_ABORT


def test_what_a_classic_producer_sees(classic: Driver) -> None:
    driver = classic
    producer_id, epoch = at_epoch(driver, 3)
    driver.exchange(add((producer_id, epoch), T0))
    driver.advance(80_000)
    for request in (
        end((producer_id, epoch), commit=False),
        end((producer_id, epoch)),
        add((producer_id, epoch), T0),
        verify((producer_id, epoch), T0),
        init((producer_id, epoch)),
    ):
        assert driver.error(request) is E.producer_fenced
    assert driver.producer(init()) == (producer_id, epoch + 2)


def test_what_a_producer_of_the_newest_protocol_sees(driver: Driver) -> None:
    producer_id, epoch = at_epoch(driver, 3)
    driver.exchange(verify((producer_id, epoch), T0, add=True))
    driver.advance(80_000)
    assert driver.error(end((producer_id, epoch), version=5)) is E.invalid_txn_state
    assert driver.producer(end((producer_id, epoch), version=5, commit=False)) == (producer_id, 4)
    assert driver.error(verify((producer_id, epoch), T0, add=True)) is E.producer_fenced
    assert driver.producer(init((producer_id, epoch))) == (producer_id, 4)
    assert driver.producer(init()) == (producer_id, 5)
    assert driver.error(init((producer_id, epoch))) is E.producer_fenced


def test_a_decided_transaction_does_not_time_out(make: Make) -> None:
    driver = make(takes=False)
    producer = driver.producer(init())
    driver.exchange(add(producer, T0))
    driver.send(end(producer))
    driver.advance(1_000_000)
    assert driver.metadata().state is S.PREPARE_COMMIT
    assert driver.metadata().producer_epoch == 0


def test_a_timeout_that_is_not_written_is_tried_again(make: Make) -> None:
    driver = make()
    producer = driver.producer(init())
    driver.exchange(add(producer, T0))
    driver.auto = False
    driver.advance(70_000)
    driver.fail(E.message_too_large)
    assert (driver.metadata().state, driver.metadata().producer_epoch) == (S.ONGOING, 0)
    driver.auto = True
    driver.advance(10_000)
    assert (driver.metadata().state, driver.metadata().producer_epoch) == (S.COMPLETE_ABORT, 1)


def test_a_timeout_that_the_log_refuses_keeps_no_other_transaction(driver: Driver) -> None:
    """Each is a step of its own, as its record may be too large for the log."""
    names = ("first", "second", "third")
    for name in names:
        driver.exchange(add(driver.producer(init(name=name)), T0, name=name))
    driver.auto = False
    driver.now_ms += 70_000
    for name in names:
        driver.tick()
        if name == "first":
            driver.fail(E.message_too_large)
        else:
            driver.write_all()
    driver.write_all()
    assert [driver.metadata(name).state for name in names] == [S.ONGOING, S.COMPLETE_ABORT, S.COMPLETE_ABORT]
    driver.auto = True
    driver.advance(10_000)
    assert driver.metadata("first").state is S.COMPLETE_ABORT


def test_ids_that_are_not_used_expire(make: Make) -> None:
    day_ms = 86_400_000
    driver = make(transaction_max_timeout_ms=2_000_000_000)
    driver.producer(init(name="empty"))
    done = driver.producer(init(name="done"))
    driver.exchange(add(done, T0, name="done"))
    driver.exchange(end(done, name="done"))
    open_ = driver.producer(init(name="open", timeout_ms=2_000_000_000))
    driver.exchange(add(open_, T0, name="open"))
    driver.advance(7 * day_ms - 1)
    assert len(driver.core.hard_state.entries) == 3
    driver.advance(3_600_000)
    assert [*driver.core.hard_state.entries] == ["open"]
    (event,) = [event for event in driver.events if isinstance(event, TransactionalIdsExpired)]
    assert event.transactional_ids == ("empty", "done")
    assert [record.value for record in driver.log[-2:]] == [None, None]
    assert driver.error(end(done, name="done")) is E.invalid_producer_id_mapping


def test_many_ids_expire_in_several_writes(make: Make) -> None:
    driver = make(transactional_id_expiration_ms=1000, transaction_remove_expired_transaction_cleanup_interval_ms=2000)
    driver.core.give_producer_ids(range(50_000, 60_000))
    for number in range(2500):
        driver.producer(init(name=f"x{number}"))
    driver.advance(2000)
    driver.advance(2)
    assert driver.core.hard_state.entries == {}


def test_tombstones_that_are_not_written(make: Make) -> None:
    driver = make(transactional_id_expiration_ms=1000, transaction_remove_expired_transaction_cleanup_interval_ms=2000)
    producer = driver.producer(init())
    driver.auto = False
    driver.advance(2000)
    token = driver.park(add(producer, T0))
    driver.fail(E.message_too_large)
    assert token in driver.responses
    driver.auto = True
    assert driver.error(add(producer, T0)) is E.none
