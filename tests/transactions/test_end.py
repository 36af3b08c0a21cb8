"""EndTxn in every state, of both protocols."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.transactions.codec import adapters
from muster.actors.transactions.state import TransactionState
from tests.transactions.driver import T0, Driver, Producer, add, at_epoch, end, error_of, init, verify

E = ErrorCode
Make = Callable[..., Driver]
S = TransactionState


def ongoing(driver: Driver, epoch: int = 3) -> Producer:
    producer = at_epoch(driver, epoch)
    driver.exchange(verify(producer, T0, add=True))
    return producer


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [(S.EMPTY, E.invalid_txn_state, E.invalid_txn_state), (S.COMPLETE_COMMIT, E.none, E.invalid_txn_state),
     (S.COMPLETE_ABORT, E.invalid_txn_state, E.none)],
)  # fmt: skip
def test_classic_without_a_transaction(driver: Driver, state: S, commit: E, abort: E) -> None:
    producer = driver.producer(init())
    if state is not S.EMPTY:
        driver.exchange(add(producer, T0))
        driver.exchange(end(producer, commit=state is S.COMPLETE_COMMIT))
    written = len(driver.log)
    assert driver.metadata().state is state
    assert driver.error(end(producer, commit=True)) is commit
    assert driver.error(end(producer, commit=False)) is abort
    assert len(driver.log) == written


def test_classic_keeps_the_epoch(driver: Driver) -> None:
    producer = at_epoch(driver, 3)
    for commit in (True, False):
        driver.exchange(add(producer, T0))
        assert driver.error(end(producer, commit=commit)) is E.none
        assert (driver.markers[-1].producer_epoch, driver.markers[-1].commit) == (3, commit)
    assert driver.metadata().producer_epoch == 3


def test_classic_of_another_producer(driver: Driver) -> None:
    producer_id, epoch = ongoing(driver)
    assert driver.error(end((producer_id + 1, epoch))) is E.invalid_producer_id_mapping
    assert driver.error(end((producer_id, epoch), name="y")) is E.invalid_producer_id_mapping
    for stale in (epoch - 1, epoch + 1):
        response = driver.exchange(end((producer_id, stale)))
        assert response.error_code is E.producer_fenced
        assert adapters.encode(1, response).error_code is E.invalid_producer_epoch  # type: ignore[union-attr]
        assert adapters.encode(2, response).error_code is E.producer_fenced  # type: ignore[union-attr]


def test_an_abort_of_nothing(make: Make) -> None:
    driver = make()
    producer_id, epoch = at_epoch(driver, 3)
    driver.auto = False
    first = driver.park(end((producer_id, epoch), commit=False, version=5))
    again = driver.park(end((producer_id, epoch), commit=False, version=5))
    driver.write_all()
    assert driver.responses[first].producer_epoch == 4  # type: ignore[union-attr]
    assert error_of(driver.responses[again]) is E.concurrent_transactions
    assert driver.producer(end((producer_id, epoch), commit=False, version=5)) == (producer_id, 4)
    assert driver.markers == []
    assert driver.metadata().state is S.COMPLETE_ABORT
    assert driver.metadata().start_ms == driver.now_ms


def test_a_commit_whose_response_is_lost(make: Make) -> None:
    driver = make(takes=False)
    producer_id, epoch = ongoing(driver)
    token = driver.park(end((producer_id, epoch), version=5))
    assert driver.error(end((producer_id, epoch), version=5)) is E.concurrent_transactions
    driver.mark()
    assert driver.responses[token].producer_epoch == 4  # type: ignore[union-attr]
    assert driver.producer(end((producer_id, epoch), version=5)) == (producer_id, 4)
    assert driver.error(end((producer_id, epoch), version=5, commit=False)) is E.invalid_txn_state
    assert driver.error(end((producer_id, 4), version=5)) is E.invalid_txn_state
    assert driver.producer(end((producer_id, 4), version=5, commit=False)) == (producer_id, 5)
    assert [marker.producer_epoch for marker in driver.markers] == [4]


def test_the_last_epoch(make: Make) -> None:
    driver = make(takes=False)
    producer = ongoing(driver, 32_766)
    token = driver.park(end(producer, version=5))
    assert driver.error(end(producer, version=5)) is E.concurrent_transactions
    driver.mark()
    response = driver.responses[token]
    given = (response.producer_id, response.producer_epoch)  # type: ignore[union-attr]
    assert given[0] != producer[0]
    assert given[1] == 0
    assert (driver.markers[0].producer_id, driver.markers[0].producer_epoch) == (producer[0], 32_767)
    assert driver.producer(end(producer, version=5)) == given
    assert driver.error(end(producer, version=5, commit=False)) is E.invalid_txn_state
    assert driver.producer(init(producer)) == given
    assert driver.error(end((producer[0], 32_765), version=5)) is E.invalid_producer_id_mapping


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING])
def test_the_epoch_before_is_fenced_unless_complete(driver: Driver, state: S, commit: bool) -> None:
    producer_id, epoch = ongoing(driver)
    producer = driver.producer(end((producer_id, epoch), version=5))
    if state is S.EMPTY:
        producer = driver.producer(init())
    else:
        driver.exchange(verify(producer, T0, add=True))
    assert driver.error(end((producer_id, producer[1] - 1), version=5, commit=commit)) is E.producer_fenced


def test_a_commit_of_nothing_is_refused(driver: Driver) -> None:
    producer = driver.producer(init())
    assert driver.error(end(producer, version=5)) is E.invalid_txn_state


def test_the_protocol_may_change_between_transactions(driver: Driver) -> None:
    producer_id, epoch = ongoing(driver)
    producer = driver.producer(end((producer_id, epoch), version=5))
    driver.exchange(add(producer, T0))
    assert driver.error(end(producer)) is E.none
    assert driver.metadata().producer_epoch == 4
    assert driver.error(end((producer_id, 3), version=5)) is E.producer_fenced
    driver.exchange(verify(producer, T0, add=True))
    assert driver.producer(end(producer, version=5)) == (producer_id, 5)


def test_the_response_waits_for_markers_a_little(make: Make) -> None:
    driver = make(takes=False)
    token = driver.park(end(ongoing(driver), version=5))
    driver.advance(49)
    assert token not in driver.responses
    driver.advance(1)
    assert error_of(driver.responses[token]) is E.none


def test_a_decision_that_is_not_written(make: Make) -> None:
    driver = make()
    producer = ongoing(driver)
    driver.auto = False
    token = driver.park(end(producer, version=5))
    driver.fail()
    assert error_of(driver.responses[token]) is E.not_coordinator
    assert (driver.metadata().state, driver.metadata().producer_epoch, driver.markers) == (S.ONGOING, 3, [])
    driver.auto = True
    assert driver.producer(end(producer, version=5, commit=False)) == (producer[0], 4)


@pytest.mark.parametrize("written", [True, False])
def test_who_waits_when_it_resigns(make: Make, written: bool) -> None:
    driver = make(takes=False)
    producer = ongoing(driver)
    driver.auto = written
    token = driver.park(end(producer, version=5))
    driver.resign()
    assert error_of(driver.responses[token]) is E.not_coordinator
    assert driver.error(end(producer, version=5)) is E.not_coordinator
    assert driver.core.next_deadline_ms() is None


def test_an_exhausted_producer_needs_an_id_to_end(driver: Driver) -> None:
    producer = ongoing(driver, 32_766)
    while driver.error(init(name=None)) is E.none:
        pass
    assert driver.error(end(producer, version=5)) is E.coordinator_load_in_progress
    driver.core.give_producer_ids(range(50_000, 50_001))
    assert driver.producer(end(producer, version=5)) == (50_000, 0)
